import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allow, parsePorts, parseRuleLines, targetOf } from '../src/lib/rules';

test('targets of denied rows', () => {
  assert.deepEqual(targetOf('denied.test:443'), { host: 'denied.test', port: 443 });
  assert.deepEqual(targetOf('Denied.Test.:80'), { host: 'denied.test', port: 80 });
  assert.deepEqual(targetOf('host'), { host: 'host' });
  assert.equal(targetOf('10.0.0.1'), undefined);
  assert.equal(targetOf('10.0.0.1:80'), undefined);
  assert.equal(targetOf('[::1]:80'), undefined);
  assert.equal(targetOf('*.x:80'), undefined);
  assert.equal(targetOf(''), undefined);
});

test('what is allowed comes first, for its port only', () => {
  assert.deepEqual(allow([{ domain: '*' }], { host: 'a.test', port: 8443 }), [
    { domain: 'a.test', ports: [8443] },
    { domain: '*' },
  ]);
});

test('a name that was asked for gets the ports of the web', () => {
  assert.deepEqual(allow([], { host: 'a.test', port: 53 }), [
    { domain: 'a.test', ports: [80, 443] },
  ]);
});

test('a rule of that name gets the port and keeps the rest', () => {
  const rules = [{ domain: 'a.test', ports: [443], inspect: true }];
  assert.deepEqual(allow(rules, { host: 'a.test', port: 80 }), [
    { domain: 'a.test', ports: [80, 443], inspect: true },
  ]);
  assert.deepEqual(allow([{ domain: 'a.test', ports: [] }], { host: 'a.test', port: 80 }), [
    { domain: 'a.test', ports: [] },
  ]);
});

test('ports and lines that a person types', () => {
  assert.deepEqual(parsePorts(' 80, 443 '), [80, 443]);
  assert.equal(typeof parsePorts('0'), 'string');
  assert.equal(typeof parsePorts('http'), 'string');
  assert.deepEqual(parseRuleLines('pypi.org\n\n*.x.org 443'), [
    { domain: 'pypi.org', ports: [80, 443] },
    { domain: '*.x.org', ports: [443] },
  ]);
  assert.equal(typeof parseRuleLines('x y'), 'string');
});
