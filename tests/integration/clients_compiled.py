"""Clients that ask nobody's C library: Go, linked statically, with a resolver of its own, and Java."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from client_case import ClientCase
from upstream import Echo, Web

GO = """package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

func show(answer *http.Response, err error) {
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(body))
}

func main() {
	name := os.Args[1]
	show(http.Get("http://" + name + "/go"))
	show(http.Get("https://" + name + "/go-tls"))
	show(http.Post("https://"+name+"/go-post", "text/plain", strings.NewReader(strings.Repeat("x", 5000))))
	link, err := net.Dial("tcp", name+":7")
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Fprintln(link, "hello from go")
	line, _ := bufio.NewReader(link).ReadString('\\n')
	fmt.Print(line)
}
"""
JAVA = """
import java.io.*;
import java.net.*;
import java.net.http.*;

public class Client {
  public static void main(String[] words) throws Exception {
    String name = words[0];
    HttpClient client = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).build();
    for (String url : new String[] {"http://" + name + "/java", "https://" + name + "/java-tls"}) {
      HttpRequest request = HttpRequest.newBuilder(URI.create(url)).version(HttpClient.Version.HTTP_1_1).build();
      System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
    try (InputStream old = new URL("https://" + name + "/java-old").openStream()) {
      System.out.println(new String(old.readAllBytes()));
    }
    try (Socket link = new Socket(Proxy.NO_PROXY)) {
      link.connect(new InetSocketAddress(name, 7));
      link.getOutputStream().write("hello from java\\n".getBytes());
      System.out.println(new BufferedReader(new InputStreamReader(link.getInputStream())).readLine());
    }
  }
}
"""


class Compiled(ClientCase):
    names = ("web.test",)
    ports = (80, 443, 7)
    programs = ("go", "java", "javac", "keytool", "openssl")

    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] += ":/usr/local/go/bin"
        super().setUpClass()
        cls.web = Web(port=80)
        cls.secure = Web(port=443, context=cls.authority.context("web.test"))
        cls.echo = Echo(port=7)

    def test_go(self):
        source = self.folder / "go"
        source.mkdir()
        (source / "main.go").write_text(GO, encoding="utf-8")
        (source / "go.mod").write_text("module client\n", encoding="utf-8")
        env = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off",
                            "HOME": os.environ.get("HOME", "/root")}
        self.outside("go", "build", "-o", self.work / "go-client", ".", cwd=source, env=env)
        self.works("SSL_CERT_FILE=ca.pem ./go-client web.test", '"/go"', '"/go-tls"', '"length": 5000', "hello from go")
        for variables in (True, False):
            done = self.shell("SSL_CERT_FILE=ca.pem ./go-client refused.test", variables)
            self.assertNotIn('"method"', done.stdout)
            self.assertIn("failed:", done.stdout)
        self.assertNotIn("refused.test", self.dns.names_asked())

    def test_java(self):
        (self.folder / "Client.java").write_text(JAVA, encoding="utf-8")
        self.outside("javac", "-d", self.work, self.folder / "Client.java")
        self.outside("keytool", "-importcert", "-noprompt", "-alias", "test", "-file", self.authority.certificate,
                     "-keystore", self.work / "trust.p12", "-storepass", "password")
        java = ("java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx128m -Djavax.net.ssl.trustStore=trust.p12 "
                "-Djavax.net.ssl.trustStorePassword=password {} -cp . Client {}")
        proxy = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128"
        words = ("/java", "/java-tls", "/java-old", "hello from java")
        # The variables are nothing to Java; its own settings are.
        self.works(java.format(proxy, "web.test"), *words, variables=(True,))
        self.works(java.format("", "web.test"), *words, variables=(False,))
        self.works(java.format("-Djava.net.preferIPv6Addresses=true", "web.test"), *words, variables=(False,))
        self.fails(java.format(proxy, "refused.test"), variables=(True,))
        self.fails(java.format("", "refused.test"), variables=(False,))


if __name__ == "__main__":
    way_out.main()
