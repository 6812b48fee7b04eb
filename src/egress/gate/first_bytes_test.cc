#include "egress/gate/first_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

Spoken whole(std::string_view bytes) { return FirstBytesReader().look(bytes); }

// Byte by byte: the same answer, and never a wrong one before.
Spoken by_bytes(std::string_view bytes) {
  FirstBytesReader reader;
  for (std::size_t i = 1; i <= bytes.size(); ++i) {
    const Spoken spoken = reader.look(bytes.substr(0, i));
    if (spoken != Spoken::Undecided) return spoken;
  }
  return Spoken::Undecided;
}

}  // namespace

TEST(FirstBytes, WhatALenientServerReadsAsHttp) {
  for (const char* text :
       {"GET / HTTP/1.1\r\n", "\r\n\r\n\r\nGET / HTTP/1.1\r\n", "\nPOST /x HTTP/1.0\n",
        "  GET / HTTP/1.1\r\n", "GET\t/\tHTTP/1.1\r\n", "get / http/1.1\r\n", "GET /\r\n",
        "MADEUP / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "GET http://x/\r\n", "A B C HTTP/1.1\n",
        "x:y HTTP/1.1\r\n", "G(T / HTTP/1.1\r\n", "GET\v/\vHTTP/1.1\r\n", "\x1fGET\xa0/x\r\n",
        "MADEUP /\x01 HTTP/1.1\r\n"}) {
    EXPECT_EQ(whole(text), Spoken::Http) << text;
  }
  for (const char* text : {"GET / HTTP/1.1\r\n", "\r\n\r\nGET /\r\n", "MADEUP / HTTP/1.1\r\n",
                           "MADEUP /\x01 HTTP/1.1\r\n", "\v\fGET\f/"}) {
    EXPECT_EQ(by_bytes(text), Spoken::Http) << text;
  }
}

TEST(FirstBytes, WhatIsHeldIsBounded) {
  EXPECT_EQ(whole(std::string(1024, '\n')), Spoken::Undecided);
  EXPECT_EQ(whole(std::string(1025, '\n')), Spoken::Http);  // and then refused
}

TEST(FirstBytes, WhatIsHeld) {
  for (const char* text : {"G", "GET", "MADEUP", "MADEUP / HT", "\r\n", "   ", "SSH-2.0-x"}) {
    EXPECT_EQ(whole(text), Spoken::Undecided) << text;
  }
  EXPECT_EQ(FirstBytesReader().look(""), Spoken::Undecided);
  EXPECT_EQ(FirstBytesReader().finish(""), Spoken::Undecided);
  EXPECT_EQ(FirstBytesReader().finish("PING"), Spoken::Other);
  EXPECT_EQ(FirstBytesReader().finish("\x16\x03\x01"), Spoken::TlsRefused);
}

TEST(FirstBytes, Others) {
  for (const std::string& text :
       {std::string("SSH-2.0-OpenSSH\r\n"), std::string("PING\r\n"), std::string("USER me\r\n"),
        std::string("\0\0\0\x08", 4), std::string("*1\r\n"), std::string("\x01"),
        std::string("\x7f"), std::string("a\0b", 3), std::string("{\"json\": 1}")}) {
    EXPECT_EQ(by_bytes(text), Spoken::Other) << text;
  }
  // Longer than a request line may be here: what a server with more room would make of it is not
  // waited for.
  EXPECT_EQ(whole(std::string(kFirstLineBytesMax, 'a')), Spoken::Http);
  EXPECT_EQ(whole(std::string(kFirstLineBytesMax - 1, 'a')), Spoken::Undecided);
}

TEST(FirstBytes, Tls) {
  EXPECT_EQ(by_bytes(hello_for("a.example")), Spoken::Tls);
  FirstBytesReader reader;
  ASSERT_EQ(reader.look(hello_for("a.example")), Spoken::Tls);
  EXPECT_EQ(reader.hello().server_name->text(), "a.example");
  EXPECT_EQ(whole(std::string("\x16\x03\x01\x00\x00", 5)), Spoken::TlsRefused);
  // The hello of SSL 2.
  EXPECT_EQ(by_bytes(std::string("\x80\x2e\x01\x03\x01", 5)), Spoken::TlsRefused);
  EXPECT_EQ(by_bytes(std::string("\x80\x2e\x02\x03\x01", 5)), Spoken::Other);
}

}  // namespace caisson::egress::test
