"""Prove who calls: certificates, signed tokens, and the server's own certificate."""
