"""git over https and over ssh, through the way out: cloned, changed, pushed."""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from client_case import ClientCase
from upstream import Web
from way_out import wait_until

GIT_USER = 54321  # of the host's side; nobody has this id
CHANGE = ("cd {0}; echo change >>file; git -c user.name=a -c user.email=a@b commit -qam {0}; git push -q origin HEAD; "
          "git log --format=%s -1; cd ..; ")


class GitWeb(Web):
    """git's own program behind TLS."""

    def __init__(self, root, **more):
        self.root = root
        super().__init__(**more)

    def answer(self, request):
        path, _, query = request.target.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1",
               "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": request.method, "REMOTE_USER": "git",
               "REMOTE_ADDR": "127.0.0.1", "CONTENT_TYPE": request.field("content-type") or "",
               "CONTENT_LENGTH": str(len(request.body)), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
               "GIT_CONFIG_VALUE_0": "*", "GIT_PROTOCOL": request.field("git-protocol") or ""}
        for name in ("content-encoding",):
            if request.field(name):
                env["HTTP_" + name.upper().replace("-", "_")] = request.field(name)
        # As the user that ssh has: what one of them makes in the repository, the other has to write in.
        done = subprocess.run(["git", "http-backend"], input=request.body, env=env, capture_output=True, check=True,
                              user=GIT_USER, group=GIT_USER, extra_groups=[], timeout=way_out.PATIENCE)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = head.decode().split("\r\n")
        status = next((field[8:] for field in fields if field.startswith("Status: ")), "200 OK")
        return status, "".join(field + "\r\n" for field in fields if not field.startswith("Status: ")), body


class Git(ClientCase):
    names = ("git.test",)
    ports = (22, 443)
    programs = ("git", "ssh", "ssh-keygen", "sshd", "unshare", "openssl")

    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] += ":/usr/sbin"
        super().setUpClass()
        cls.make_repository()
        cls.web = GitWeb(cls.folder / "git", port=443, context=cls.authority.context("git.test"))
        cls.start_sshd()

    @classmethod
    def make_repository(cls):
        root, seed = cls.folder / "git", cls.folder / "seed"
        cls.outside("git", "init", "-q", "--bare", root / "thing.git")
        cls.outside("git", "-C", root / "thing.git", "config", "http.receivepack", "true")
        cls.outside("git", "init", "-q", seed)
        (seed / "file").write_text("first\n" * 20000, encoding="ascii")
        cls.outside("git", "-C", seed, "add", "file")
        cls.outside("git", "-C", seed, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
        cls.outside("git", "-C", seed, "push", "-q", root / "thing.git", "HEAD")
        for folder, _, files in os.walk(root):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, GIT_USER, GIT_USER)

    @classmethod
    def start_sshd(cls):
        """Debian's, with keys and a user that exist for it only: in a mount namespace of its own it sees another list
        of users, and a /run of its own."""
        ssh = cls.folder / "ssh"
        ssh.mkdir(mode=0o755)
        for name in ("host", "user"):
            cls.outside("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", ssh / name)
        shutil.copy(ssh / "user.pub", ssh / "authorized")
        shutil.copy(ssh / "user", cls.work / "key")
        os.chmod(cls.work / "key", 0o644)
        (cls.work / "known").write_text("git.test " + (ssh / "host.pub").read_text(), encoding="ascii")
        users = pathlib.Path("/etc/passwd").read_text(encoding="utf-8")
        users = "".join(line + "\n" for line in users.splitlines() if not line.startswith(("gitter:", "sshd:")))
        (ssh / "passwd").write_text(users + f"gitter:*:{GIT_USER}:{GIT_USER}::/:/bin/sh\n"
                                    "sshd:*:65533:65534::/run/sshd:/usr/sbin/nologin\n", encoding="utf-8")
        (ssh / "config").write_text(
            f"Port 22\nHostKey {ssh}/host\nAuthorizedKeysFile {ssh}/authorized\nUsePAM no\nStrictModes no\n"
            "PasswordAuthentication no\nPidFile none\nUseDNS no\n", encoding="ascii")
        script = (f"mount -t tmpfs none /run && mkdir -m 0755 /run/sshd && mount --bind {ssh}/passwd /etc/passwd && "
                  f"exec {shutil.which('sshd')} -D -e -f {ssh}/config")
        cls.log = open(ssh / "log", "w", encoding="utf-8")
        cls.addClassCleanup(cls.log.close)
        cls.sshd = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", script], stderr=cls.log)
        cls.addClassCleanup(cls.sshd.wait, way_out.PATIENCE)
        cls.addClassCleanup(cls.sshd.terminate)
        wait_until("sshd listens", lambda: "listening" in (ssh / "log").read_text() or cls.sshd.poll() is not None)

    def head(self):
        return self.outside("git", "-c", "safe.directory=*", "-C", self.folder / "git/thing.git", "log", "--format=%s",
                            "-1")

    def test_https(self):
        name = "by-https"
        for number, variables in enumerate((True, False)):
            folder = f"{name}-{number}"
            done = self.shell(f"cd /tmp; cp $OLDPWD/ca.pem .; export GIT_SSL_CAINFO=/tmp/ca.pem; "
                              f"git clone -q https://git.test/thing.git {folder}; " + CHANGE.format(folder), variables)
            self.assertEqual(done.code, 0, done.stdout + done.stderr)
            self.assertEqual(self.head(), folder + "\n")
        self.assertIn("git.test", self.web.hosts())
        self.fails("GIT_SSL_CAINFO=ca.pem git clone -q https://refused.test/thing.git /tmp/x")

    def test_ssh(self):
        prepare = ("cp key /tmp/key; cp known /tmp/known; chmod 600 /tmp/key; cd /tmp; "
                   "export GIT_SSH_COMMAND='ssh -F none -i /tmp/key -o UserKnownHostsFile=/tmp/known "
                   "-o StrictHostKeyChecking=yes -o BatchMode=yes'; ")
        repository = f"gitter@git.test:{self.folder}/git/thing.git"
        for number, variables in enumerate((True, False)):
            folder = f"by-ssh-{number}"
            done = self.shell(prepare + f"git clone -q {repository} {folder}; " + CHANGE.format(folder), variables)
            self.assertEqual(done.code, 0, done.stdout + done.stderr + (self.folder / "ssh/log").read_text())
            self.assertEqual(self.head(), folder + "\n")
        self.fails(prepare + "git clone -q " + repository.replace("git.test", "refused.test") + " /tmp/x")

    def test_ssh_by_the_proxy(self):
        """As people do it where nothing else is open."""
        (self.work / "nc.py").write_text("""
import socket, sys, threading
link = socket.create_connection(('127.0.0.1', 3128))
target = f'{sys.argv[1]}:{sys.argv[2]}'
link.sendall(f'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n'.encode())
seen = b''
while not seen.endswith(b'\\r\\n\\r\\n'):
    seen += link.recv(1)
def down():
    while data := link.recv(65536):
        sys.stdout.buffer.write(data); sys.stdout.buffer.flush()
threading.Thread(target=down, daemon=True).start()
while data := sys.stdin.buffer.raw.read(65536):
    link.sendall(data)
""", encoding="utf-8")
        done = self.shell("cp key nc.py known /tmp; chmod 600 /tmp/key; ssh -F none -i /tmp/key "
                          "-o UserKnownHostsFile=/tmp/known -o BatchMode=yes "
                          "-o ProxyCommand='/usr/bin/python3 /tmp/nc.py %h %p' gitter@git.test id -u")
        self.assertEqual((done.code, done.stdout), (0, f"{GIT_USER}\n"), done.stderr)


if __name__ == "__main__":
    way_out.main()
