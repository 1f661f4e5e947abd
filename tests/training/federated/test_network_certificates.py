"""Certificates of a federation's own authority, checked by another implementation of TLS."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from hushdoc_training.federated.flower import certificates
from hushdoc_training.federated.flower.certificates import Authority, Identity

AUTHORITY = Authority.new("receipts")
HOSTS = ("coordinator.example", "127.0.0.1", "::1")


def shaken(server: Identity, host: str, authority: bytes, folder: Path) -> None:
    """Lets OpenSSL shake hands in memory; an ssl.SSLError where the client refuses."""
    (folder / "public").write_bytes(server.public)
    (folder / "private").write_bytes(server.private)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "public", folder / "private")
    asking = ssl.create_default_context(cadata=authority.decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        asking.wrap_bio(down, up, server_hostname=host),
        serving.wrap_bio(up, down, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", HOSTS)
def test_a_client_takes_the_server_at_its_names(host: str, tmp_path: Path) -> None:
    shaken(AUTHORITY.server(HOSTS), host, AUTHORITY.pem, tmp_path)


REFUSED: dict[str, tuple[Sequence[str], bytes]] = {
    "another authority": (HOSTS, Authority.new("receipts").pem),
    "another name": (("other.example",), AUTHORITY.pem),
    "another address": (("127.0.0.2",), AUTHORITY.pem),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_client_refuses_another_server(case: str, tmp_path: Path) -> None:
    hosts, authority = REFUSED[case]
    host = "127.0.0.1" if case == "another address" else "coordinator.example"
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(AUTHORITY.server(hosts), host, authority, tmp_path)


def test_a_server_signs_no_certificates(tmp_path: Path) -> None:
    server = AUTHORITY.server(HOSTS)
    key = load_pem_private_key(server.private, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    impostor = Authority(certificate=x509.load_pem_x509_certificate(server.public), key=key)
    below = impostor.server(HOSTS)
    chain = Identity(public=below.public + server.public, private=below.private)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(chain, "coordinator.example", AUTHORITY.pem, tmp_path)


def test_a_server_without_a_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="host name"):
        AUTHORITY.server([])


def test_the_keys_of_a_node_belong_together() -> None:
    first, second = certificates.node(), certificates.node()
    private = load_pem_private_key(first.private, password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.public_key() == load_pem_public_key(first.public)
    assert first.public != second.public
