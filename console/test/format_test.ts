import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keepTail, plain } from '../src/lib/ansi';
import { bytes, count, duration, ending, money, shortDuration } from '../src/lib/format';
import { parseMetrics, summary } from '../src/lib/metrics';
import { parsePairs, parseSpan, printPairs } from '../src/lib/pairs';

test('bytes', () => {
  assert.equal(bytes(0), '0 B');
  assert.equal(bytes(1023), '1023 B');
  assert.equal(bytes(1536), '1.5 KiB');
  assert.equal(bytes(512 * 1048576), '512 MiB');
  assert.equal(bytes(1024 ** 6), '1024 PiB');
});

test('times', () => {
  assert.equal(duration(-5), '0 s');
  assert.equal(duration(75), '1 min 15 s');
  assert.equal(duration(7200), '2 h');
  assert.equal(duration(90061), '1 d 1 h');
  assert.equal(shortDuration(3599), '59m');
});

test('counts and money', () => {
  assert.equal(count(1234567), '1,234,567');
  assert.equal(money(0.0031), '$0.0031');
  assert.equal(money(0.42), '$0.42');
  assert.equal(money(12.5), '$12.50');
});

test('how something ended', () => {
  const end = { exit_code: 0, signal: 0, timed_out: false, oom_killed: false };
  assert.equal(ending(end), 'exit 0');
  assert.equal(ending({ ...end, exit_code: 137, signal: 9 }), 'signal KILL');
  assert.equal(ending({ ...end, timed_out: true, signal: 9 }), 'out of time');
});

test('output loses its escapes and keeps the last form of a line', () => {
  assert.equal(plain('\x1b[31mred\x1b[0m\r\n'), 'red\n');
  assert.equal(plain('10%\r50%\r100%\nnext'), '100%\nnext');
  assert.equal(plain('\x1b]0;title\x07shown\x07'), 'shown');
  assert.equal(plain('<b>no markup</b>'), '<b>no markup</b>');
});

test('a long output keeps its tail, from a whole line on', () => {
  assert.deepEqual(keepTail('abc', 3), { text: 'abc', cut: false });
  assert.deepEqual(keepTail('one\ntwo\nthree', 8), { text: 'three', cut: true });
  assert.deepEqual(keepTail('', 8), { text: '', cut: false });
  assert.equal(keepTail('y\n'.repeat(9000), 100000).text.split('\n').length, 3001);
});

test('pairs and spans', () => {
  assert.deepEqual(parsePairs('A=1\n\nB=x=y'), { A: '1', B: 'x=y' });
  assert.equal(typeof parsePairs('A'), 'string');
  assert.equal(printPairs({ A: '1', B: '2' }), 'A=1\nB=2');
  assert.deepEqual(Object.keys(parsePairs('__proto__=x') as object), ['__proto__']);
  assert.equal(parseSpan('2h', 't'), 7200);
  assert.equal(parseSpan('', 't'), undefined);
  assert.equal(typeof parseSpan('soon', 't'), 'string');
});

test('metrics become a summary without buckets and routes', () => {
  const text =
    '# HELP a b\na_total{route="/x",status="200"} 2\na_total{route="/y",status="200"} 3\nb_bucket{le="1"} 1\nc 1.5\n';
  assert.deepEqual(summary(parseMetrics(text)), [
    { name: 'c', labels: '', value: 1.5 },
    { name: 'a_total', labels: '', value: 5 },
  ]);
});
