"""Check of a listener's certificate for the names under which clients connect."""

import ssl


def name_problem(server: ssl.SSLContext, name: str) -> str:
    """OpenSSL's error for this certificate at a client that connects to `name`; empty if there is none.

    The client of the handshake trusts the certificate whatever its signer: only the name is checked.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    certificate = _shaken_hands(server, trusting, name).getpeercert(binary_form=True)
    assert certificate is not None  # which every server of TLS has
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=certificate)
    try:
        _shaken_hands(server, client, name)
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    return ""


def _shaken_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """The client's end of a handshake in memory.

    Raises:
        ssl.SSLCertVerificationError: the client does not accept the certificate.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=name)
    while True:
        try:
            theirs.do_handshake()
        except ssl.SSLWantReadError:
            try:
                ours.do_handshake()
            except ssl.SSLWantReadError:
                continue
        else:
            return theirs
