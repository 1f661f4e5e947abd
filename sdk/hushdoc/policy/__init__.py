"""What an application demands of a certificate, and how it is checked."""
