"""The images that sandboxer's own scripts ask for, made here: of the same names and manners, and nothing of a registry.

redis        Debian's redis-server, and redis-cli; its start-up script gives the data away and becomes its user
nginx        Debian's nginx, with its page where the script writes it; its workers are nobody
echo-server  one static program, no shell
hello-world  one static program that says hello and ends
"""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "images")]
import kit  # noqa: E402
from layout import Layer  # noqa: E402
from packages import PackageLayer  # noqa: E402

SOURCES = ("pictures.py", "echo.c", "hello.c")
NGINX = """daemon off;
user nobody nogroup;
worker_processes 1;
pid /tmp/nginx.pid;
error_log /dev/stderr;
events { worker_connections 64; }
http {
  include /etc/nginx/mime.types;
  access_log off;
  server { listen 80; root /usr/share/nginx/html; index index.html; }
}
"""


# As the script of the image that everybody knows: root gives the data to the server's user and becomes him.
REDIS_USER = 999
REDIS_START = f"""#!/bin/sh
set -e
if [ "$(id -u)" = 0 ]; then
  find . ! -user {REDIS_USER} -exec chown {REDIS_USER}:{REDIS_USER} {{}} +
  exec setpriv --reuid={REDIS_USER} --regid={REDIS_USER} --clear-groups -- "$0" "$@"
fi
umask 0077
exec "$@"
"""


def own_sources():
    return b"".join((HERE / name).read_bytes() for name in SOURCES)


def static_program(name):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, name)
        subprocess.run(["musl-gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / f"{name}.c"], check=True)
        return program.read_bytes()


class Packaged(kit.Debian):
    packages = ()

    def prepare(self):
        super().prepare()
        below = {**self.base, **self.tools}
        everything = self.apt.choose(kit.DEBIAN + kit.DEBIAN_TOOLS + self.packages)
        self.chosen = {name: version for name, version in everything.items() if name not in below}
        self.key = repr((self.key, self.chosen, own_sources()))


class Redis(Packaged):
    packages = ("redis-server", "util-linux")

    def write(self, made):
        data = Layer().folder("data").file("usr/local/bin/start", REDIS_START.encode(), mode=0o755)
        return made.image([*self.layers(), PackageLayer(self.apt.fetch(self.chosen)), data], {
            "Env": [f"PATH={kit.PATH}"], "Entrypoint": ["start"],
            "Cmd": ["redis-server", "--protected-mode", "no", "--save", ""],
            "WorkingDir": "/data", "ExposedPorts": {"6379/tcp": {}}})


class Nginx(Packaged):
    packages = ("nginx-light",)

    def write(self, made):
        own = Layer().file("etc/nginx/caisson.conf", NGINX.encode())
        own.file("usr/share/nginx/html/index.html", b"<h1>Welcome to nginx!</h1>\n")
        return made.image([*self.layers(), PackageLayer(self.apt.fetch(self.chosen)), own], {
            "Env": [f"PATH={kit.PATH}"], "Entrypoint": ["nginx"], "Cmd": ["-c", "/etc/nginx/caisson.conf"],
            "ExposedPorts": {"80/tcp": {}, "443/tcp": {}}})


class Static(kit.Recipe):
    program = ports = None

    def prepare(self):
        self.key = repr((self.program, own_sources()))

    def write(self, made):
        layer = Layer().file(self.program, static_program(self.program), mode=0o755)
        return made.image([layer], {"Cmd": [f"/{self.program}"], "ExposedPorts": {one: {} for one in self.ports}})


class Echo(Static):
    program, ports = "echo", ("8080/tcp",)


class Hello(Static):
    program, ports = "hello", ()


RECIPES = {"redis": Redis, "nginx": Nginx, "echo-server": Echo, "hello-world": Hello}
kit.RECIPES.update({f"sandboxer-{name}": recipe for name, recipe in RECIPES.items()})


def picture(name):
    """The folder of an image, an OCI layout."""
    return kit.image(f"sandboxer-{name}" if name in RECIPES else name)
