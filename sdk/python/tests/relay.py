"""A relay before a real server that loses answers on demand: the request is done, and nobody hears of it. With a
certificate it is also what a proxy with TLS would be.
"""

import select
import socket
import ssl
import threading

PIECE = 65536


class Relay:
    def __init__(self, port, certificate=None):
        self._port = port
        self._tls = None
        if certificate:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open = set()
        self.to_lose = 0  # so many of the next answers
        self.lost = 0
        self.connections = 0
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        self.cut()

    def cut(self):
        """Every connection that is open now."""
        with self._lock:
            for one in self._open:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client):
        if self._tls is not None:
            try:
                client = self._tls.wrap_socket(client, server_side=True)
            except OSError:  # a client that does not trust us
                client.close()
                return
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            with self._lock:
                self._open |= {client, server}
            try:
                while self._move(client, server):
                    pass
            except OSError:
                pass
            with self._lock:
                self._open -= {client, server}

    def _move(self, client, server):
        held = isinstance(client, ssl.SSLSocket) and client.pending()
        for one in [client] if held else select.select([client, server], [], [])[0]:
            data = one.recv(PIECE)
            if not data:
                return False
            if one is server and self.to_lose > 0:
                self.to_lose -= 1
                self.lost += 1
                return False
            (server if one is client else client).sendall(data)
        return True
