"""curl, wget, Python and Node through the way out."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from client_case import ClientCase
from upstream import Echo, Web


class WebClients(ClientCase):
    names = ("web.test",)
    ports = (80, 443, 7, 25)
    programs = ("curl", "wget", "node", "openssl")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        cls.secure = Web(port=443, context=cls.authority.context("web.test"))
        cls.echo = Echo(port=7)
        cls.greeter = Echo(port=25, greeting=b"220 ready\r\n")

    def setUp(self):
        super().setUp()
        for server in (self.web, self.secure, self.echo, self.greeter):
            server.forget()

    def test_curl(self):
        self.works("curl -sSf http://web.test/plain; curl -sSf --cacert ca.pem https://web.test/tls; "
                   "curl -sSf --cacert ca.pem --http2 https://web.test/two; "
                   "head -c 300000 /dev/zero | curl -sSf --cacert ca.pem -T - https://web.test/put; "
                   "curl -sSf -d name=value http://web.test/form; curl -sSfI http://web.test/head; "
                   "curl -sSf http://web.test/bytes/2000000 | wc -c",
                   '"/plain"', '"/tls"', '"/two"', '"length": 300000', '"/form"', "200 OK", "2000000")
        self.fails("curl -sSf http://refused.test/")
        self.fails("curl -sSf --cacert ca.pem https://refused.test/")

    def test_curl_by_socks_and_by_family(self):
        self.works("curl -sSf --cacert ca.pem --socks5-hostname 127.0.0.1:1080 https://web.test/socks; "
                   "curl -sSf --cacert ca.pem -x socks5h://127.0.0.1:3128 https://web.test/same; "
                   "curl -sSf --cacert ca.pem --proxytunnel -x http://127.0.0.1:3128 http://web.test/tunnel; "
                   "curl -sSf --noproxy '*' -4 http://web.test/four; curl -sSf --noproxy '*' -6 http://web.test/six",
                   '"/socks"', '"/same"', '"/tunnel"', '"/four"', '"/six"')
        self.fails("curl -sSf --socks5-hostname 127.0.0.1:1080 http://refused.test/")
        self.fails("curl -sSf --noproxy '*' --cacert ca.pem https://web.test:8443/")

    def test_curl_does_not_take_a_foreign_certificate(self):
        """TLS is the client's own, from end to end: without our authority it does not believe the host."""
        self.fails("curl -sSf https://web.test/")

    def test_names_by_family(self):
        """As programs ask that want only what this machine can reach: glibc then answers for a family only where the
        machine has an address of it that is not loopback."""
        self.works("getent ahosts web.test; getent ahostsv4 web.test; getent ahostsv6 web.test", "198.18.", "fd63:")
        (self.work / "families.py").write_text("""
import socket
for family in (socket.AF_UNSPEC, socket.AF_INET, socket.AF_INET6):
    found = socket.getaddrinfo('web.test', 80, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    print(family, found[0][4][0])
""", encoding="utf-8")
        self.works("/usr/bin/python3 -B families.py", "198.18.", "fd63:")

    def test_hosts_by_a_flag(self):
        run = self.begin([], ["/bin/sh", "-c", "curl -sS http://web.test/flag; curl -sS http://refused.test/"],
                         ["--allow", "web.test:80"])
        done = self.finish(run)
        self.assertIn('"/flag"', done.stdout)
        self.assertIn("Host not allowed: refused.test", done.stdout)

    def test_wget(self):
        self.works("wget -nv -O - http://web.test/plain; wget -nv --ca-certificate=ca.pem -O - https://web.test/tls",
                   '"/plain"', '"/tls"')
        self.fails("wget -nv -t 1 -O - http://refused.test/")

    def test_python(self):
        (self.work / "client.py").write_text("""
import http.client, json, socket, ssl, sys, urllib.request
context = ssl.create_default_context(cafile='ca.pem')
print(urllib.request.urlopen('http://web.test/urllib', timeout=20).read().decode())
print(urllib.request.urlopen('https://web.test/urllib-tls', timeout=20, context=context).read().decode())
link = http.client.HTTPSConnection('web.test', timeout=20, context=context)
for number in range(3):
    link.request('POST', f'/kept-{number}', body=b'x' * 1000)
    print(link.getresponse().read().decode())
from pip._vendor import requests
with requests.Session() as session:
    session.verify = 'ca.pem'
    print(session.get('https://web.test/requests', timeout=20).json())
    print(session.get('http://web.test/requests-plain', timeout=20).json())
raw = socket.create_connection(('web.test', 7), 20)
raw.sendall(b'hello, raw'); print(raw.recv(64))
print(socket.create_connection(('web.test', 25), 20).recv(64))
""", encoding="utf-8")
        self.works("/usr/bin/python3 -B client.py", "/urllib", "/urllib-tls", "/kept-0", "/kept-2", "/requests",
                   "/requests-plain", "hello, raw", "220 ready")
        self.fails("/usr/bin/python3 -c \"import urllib.request as u; u.urlopen('http://refused.test/', timeout=20)\"")
        self.fails("/usr/bin/python3 -c \"import socket; socket.create_connection(('refused.test', 7), 20)\"")

    def test_node(self):
        (self.work / "client.mjs").write_text("""
import net from 'node:net';
import https from 'node:https';
console.log(await (await fetch('http://web.test/fetch')).text());
console.log(await (await fetch('https://web.test/fetch-tls', {method: 'POST', body: 'x'.repeat(5000)})).text());
await new Promise((done) => https.get('https://web.test/https', (answer) => {
  answer.on('data', (data) => console.log(data.toString())); answer.on('end', done);
}));
const said = (port, words) => new Promise((done, failed) => {
  const link = net.connect(port, 'web.test', () => { if (words) link.write(words); });
  link.on('data', (data) => { console.log(data.toString()); link.destroy(); done(); });
  link.on('error', failed);
});
await said(7, 'hello, raw');
await said(25);
await fetch('http://refused.test/').then(() => process.exit(9), (error) => console.log('refused', error.cause.code));
""", encoding="utf-8")
        self.works("NODE_EXTRA_CA_CERTS=ca.pem node client.mjs", "/fetch", "/fetch-tls", "/https", "hello, raw",
                   "220 ready", "refused ENOTFOUND")


if __name__ == "__main__":
    way_out.main()
