"""Certificates and keys for the network alone: an own authority, a server, nodes' door keys.

They say whom a machine talks to. What a party says is signed by its key in the roster, so whoever
steals a key of these sees sizes and times, and can send nothing that anyone believes.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 397
"""A year and a month; runs of months fit in, and a forgotten key ends."""

_EARLY = datetime.timedelta(hours=1)
"""Clocks may be apart by this when a fresh certificate is first looked at."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A certificate or public key for others, and the private key that belongs to it, both PEM."""

    public: bytes
    private: bytes


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate authority of one federation, whose key is forgotten with the object."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str) -> Self:
        """Returns a new authority; what it is called shows in error messages alone."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(signs_certificates=True), True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False
        )
        return cls(certificate=builder.sign(key, hashes.SHA256()), key=key)

    @property
    def pem(self) -> bytes:
        """The certificate that every party trusts."""
        return self.certificate.public_bytes(Encoding.PEM)

    def server(self, hosts: Sequence[str]) -> Identity:
        """Returns certificate and key of a server that is reached by these names or addresses."""
        if not hosts:
            raise ValueError("A server's certificate needs a host name or address of it.")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hushdoc coordinator")])
        builder = _builder(subject, self.certificate.subject, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(signs_certificates=False), True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False
        )
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False
        )
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_host(host) for host in hosts]), False
        )
        certificate = builder.sign(self.key, hashes.SHA256())
        return Identity(public=certificate.public_bytes(Encoding.PEM), private=_private(key))


def node() -> Identity:
    """Returns the keys by which a client's node is let in: the server is given the public one."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Identity(public=public, private=_private(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
