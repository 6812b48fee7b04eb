import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sameSite } from '../src/lib/site';

test('hosts of one site', () => {
  assert.ok(sameSite('caisson.example.com', '8000-x.sandbox.example.com'));
  assert.ok(sameSite('127.0.0.1', '127.0.0.1'));
});

test('hosts of two', () => {
  assert.ok(!sameSite('caisson.example.com', 'x.example.net'));
  assert.ok(!sameSite('127.0.0.1', 'x.localhost'));
  assert.ok(!sameSite('localhost', 'x.localhost'));
  assert.ok(!sameSite('10.0.0.1', '20.0.0.1'));
});
