"""P27: DNS is no free channel. The resolver inside answers names that some rule allows, from what it has itself; the
name servers of the world hear of an allowed name when a connection is made, and of no other name ever."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from upstream import Web
from way_out import PUBLIC, PUBLIC6, Capture, WayOut, rule

NO_ERROR, NO_SUCH_NAME = 0, 3
RULES = [rule("allowed.test", 80), rule("*.zone.test", 80)]


class Names(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        for name in ("allowed.test", "*.zone.test", "*.test", "*.evil.example"):
            cls.dns.set(name, PUBLIC, PUBLIC6)

    def test_refused_names_are_heard_by_nobody(self):
        with Capture() as capture:
            done = self.probe(RULES, """
import base64
secret = b'the crown jewels, in thirty-two b'
for number in range(100):
    label = base64.b32encode(os.urandom(30)).decode().strip('=').lower()
    name = f'{label}.{number}.evil.example'
    out[name] = query(name, (1, 28, 16, 10, 255, 5, 15, 2, 33, 65)[number % 10], tcp=number % 3 == 0)[0]
for name in ('evil.example', 'test', 'xallowed.test', 'allowed.test.evil.example', 'sub.allowed.test', 'zone.test',
             'notzone.test', 'a.zone.test.evil.example', 'localhost', '1.0.0.127.in-addr.arpa', 'version.bind',
             'a' * 63 + '.' + 'b' * 63 + '.' + 'c' * 63 + '.evil.example'):
    for kind in (1, 28, 16, 12, 255):
        out[f'{name} {kind}'] = query(name, kind)[0]
""")
            self.assert_all(done.told, (NO_SUCH_NAME,))
            self.assertGreater(len(done.told), 150)
        self.assertEqual(self.dns.asked, [])
        self.assertEqual(capture.packets, [])

    def test_allowed_names_are_answered_without_asking(self):
        with Capture() as capture:
            done = self.probe(RULES, """
out['v4'] = query('allowed.test', 1)
out['v6'] = query('allowed.test', 28)
out['again'] = query('allowed.test', 1)
out['tcp'] = query('allowed.test', 1, tcp=True)
out['case'] = query('aLLoWeD.TeST', 1)
out['zone'] = query('one.zone.test', 1)
out['other'] = query('two.zone.test', 1)
out['types'] = [query('allowed.test', kind) for kind in (16, 10, 255, 5, 15, 2, 33, 65, 6, 257)]
""")
        told = done.told
        self.assertEqual(told["types"], [[NO_ERROR, []]] * 10)
        self.assertEqual(told["v4"], told["again"])
        self.assertEqual(told["v4"], told["tcp"])
        self.assertEqual(told["v4"], told["case"])
        self.assertTrue(told["v4"][1][0].startswith("198.18."), told)
        self.assertTrue(told["v6"][1][0].startswith("fd63:6169:7373:6f6e:"), told)
        self.assertEqual(len({told[key][1][0] for key in ("v4", "zone", "other")}), 3)
        self.assertEqual(self.dns.asked, [])
        self.assertEqual(capture.packets, [])

    def test_a_connection_asks_for_its_own_name_only(self):
        done = self.probe(RULES, """
for name in ('one.zone.test', 'two.zone.test', 'refused.test'):
    query(name)
out['status'] = status(get('http://one.zone.test/'))
""")
        self.assertEqual(done.told, {"status": 200})
        self.assertEqual(self.dns.names_asked(), {"one.zone.test"})
        # Two types of one name, and no more questions than that.
        self.assertEqual(sorted(kind for _, kind, _ in self.dns.asked), [1, 28])

    def test_a_refused_connection_asks_for_nothing(self):
        done = self.probe(RULES, """
for target in ('refused.test', 'a.b.c.evil.example', 'allowed.test.evil.example', 'zone.test',
               'evil.zone.test.example'):
    out['http ' + target] = status(get(f'http://{target}/'))
    link, out['connect ' + target] = tunnel(target + ':80'); link.close()
    link, said = socks(target, 80); link.close()
    out['socks ' + target] = 403 if said else 0
out['port'] = status(get('http://allowed.test:8080/'))
out['port of the zone'] = status(get('http://secret-in-a-label.zone.test:8080/'))
""")
        self.assert_all(done.told, (403,))
        self.assertEqual(self.dns.asked, [])

    def test_random_labels_below_an_allowed_zone_cost_the_rules_rate(self):
        """Whoever allows a zone allows its names; each one that is heard outside is a counted connection."""
        done = self.probe([rule("*.zone.test", 80) | {"rate_limit_per_min": 5}], """
for number in range(40):
    query(f'label{number}.zone.test')
out['said'] = [status(get(f'http://label{number}.zone.test/')) for number in range(40)]
""")
        said = done.told["said"]
        self.assertEqual(said[:5], [200] * 5)
        self.assertLessEqual(len(self.dns.names_asked()), said.count(200))
        self.assertLess(said.count(200), 10)
        self.assertEqual(set(said), {200, 429})

    def test_labels_that_no_host_has(self):
        done = self.probe(RULES, r"""
def raw(*labels):
    return query('', labels=list(labels))[0]
out['dot in a label'] = raw(b'allowed.test')
out['dot in a label of the zone'] = raw(b'secret.zone', b'test')
out['nul'] = raw(b'allowed\0', b'test')
out['nul at the end'] = raw(b'allowed', b'test\0evil')
out['space'] = raw(b'a b', b'zone', b'test')
out['high'] = raw(b'\xff\xfe', b'zone', b'test')
out['utf-8'] = raw('ä'.encode(), b'zone', b'test')
out['star'] = raw(b'*', b'zone', b'test')
out['slash'] = raw(b'a/b', b'zone', b'test')
out['root'] = raw()
out['many'] = raw(*[b'a'] * 110, b'zone', b'testing')
out['address'] = query('127.0.0.1')[0]
""")
        self.assert_all(done.told, (NO_SUCH_NAME,))
        self.assertEqual(self.dns.asked, [])

    def test_messages_that_are_none(self):
        done = self.probe(RULES, r"""
EDITS = {'empty': lambda m: b'', 'one byte': lambda m: b'x', 'cut head': lambda m: m[:11],
         'no question': lambda m: m[:12], 'cut name': lambda m: m[:16], 'cut type': lambda m: m[:-3],
         'an answer': lambda m: m[:2] + b'\x81\x80' + m[4:],
         'opcode': lambda m: m[:2] + b'\x29\x00' + m[4:], 'two questions': lambda m: m[:5] + b'\2' + m[6:] + m[12:],
         'pointer': lambda m: m[:12] + b'\xc0\x0c\0\1\0\1', 'pointer beyond': lambda m: m[:12] + b'\xff\xff\0\1\0\1',
         'label of 64': lambda m: m[:12] + b'\x40' + b'a' * 64 + b'\0\0\1\0\1', 'chaos': lambda m: m[:-1] + b'\3',
         'many records': lambda m: m[:6] + b'\xff\xff' * 3 + m[12:], 'tail': lambda m: m + b'secret' * 20,
         'long': lambda m: m[:12] + (b'\x3f' + b'a' * 63) * 5 + b'\0\0\1\0\1', 'huge': lambda m: m + b'x' * 40000}
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
    link.connect(('127.0.0.1', NAMES)); link.setblocking(False)
    for name, edit in EDITS.items():
        try:
            link.send(edit(b'\x12\x34\x01\0\0\1\0\0\0\0\0\0\x07allowed\x04test\0\0\1\0\1'))
        except OSError:
            pass
for name, edit in EDITS.items():
    said = query('allowed.test', tcp=True, edit=edit)
    if said[1]:
        out[name] = said
# The healthy path is as it was.
out['after'] = query('allowed.test')[0]
""")
        self.assertEqual(done.told, {"after": NO_ERROR})
        self.assertEqual(self.dns.asked, [])

    def test_the_name_servers_of_the_host_are_not_to_be_reached(self):
        port = self.dns.port
        done = self.probe(RULES, """
for address in ('127.0.0.1', '::1', '11.1.1.1', '8.8.8.8', '198.18.0.1'):
    out['udp ' + address] = reach(address, port, b'x', socket.SOCK_DGRAM, wait=1)[:3]
    out['tcp ' + address] = reach(address, port, b'x')[:3]
link, said = tunnel(f'127.0.0.1:{port}'); link.close()
out['connect'] = said
""", port=port)
        self.assertEqual(done.told.pop("connect"), 403)
        self.assertNotIn("got", [reply for reply in done.told.values() if reply != "got "])
        self.assertEqual(self.dns.asked, [])

    def test_a_name_below_a_zone_is_not_a_larger_zone(self):
        done = self.probe([rule("*.zone.test", 80)], """
for name in ('a.zone.test', 'a.b.zone.test', 'zone.test', 'azone.test', 'a.zone.test.x'):
    out[name] = query(name)[0]
""")
        self.assertEqual(done.told, {"a.zone.test": 0, "a.b.zone.test": 0, "zone.test": 3, "azone.test": 3,
                                     "a.zone.test.x": 3})


if __name__ == "__main__":
    way_out.main()
