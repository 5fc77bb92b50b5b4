import { expect, it } from 'vitest';
import { redactSecrets } from './redact.ts';

it.each([
  ['ours', `sk-svc-${'Ab1'.repeat(16)}`],
  ["a vendor's", 'sk-ant-api03-abcdefghijklmnop_QRSTUV'],
  ["another vendor's", 'gsk_abcdefghijklmnopqrstuvwxyz'],
  ["a cloud's", 'AKIAIOSFODNN7EXAMPLE'],
  ["another cloud's", `AIza${'x'.repeat(35)}`],
  ["a code host's", `ghp_${'a1'.repeat(18)}`],
  ['a signed one', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N'],
])('redacts a key in any surrounding text: %s', (_whose, key) => {
  for (const text of [key, `my key is ${key}, thanks`, `{"key":"${key}"}`, `x=${key}&y`, `(${key})`]) {
    const redacted = redactSecrets(text);
    expect(redacted).toContain('[redacted]');
    expect(redacted).not.toContain(key);
    expect(redacted).not.toContain(key.slice(-8));
  }
});

it('redacts values named as secrets', () => {
  expect(redactSecrets('Authorization: Bearer abc.def~123456')).not.toContain('123456');
  expect(redactSecrets('Basic dXNlcjpwYXNzd29yZA==')).toBe('Basic [redacted]');
  expect(redactSecrets('postgresql://ada:hunter2@db:5432/x')).toBe('postgresql://ada:[redacted]@db:5432/x');
  expect(redactSecrets('password = "hunter2hunter2"')).toBe('password = "[redacted]"');
  expect(redactSecrets('{"api_key":"hunter2hunter2","a":1}')).toBe('{"api_key":"[redacted]","a":1}');
  const pem = `-----BEGIN RSA PRIVATE KEY-----\n${'MIIE'.repeat(20)}\n-----END RSA PRIVATE KEY-----`;
  expect(redactSecrets(`a ${pem} b`)).toBe('a -----BEGIN RSA PRIVATE KEY-----[redacted] b');
  expect(redactSecrets(pem.slice(0, 80))).not.toContain('MIIE');
});

it('leaves other text unchanged', () => {
  for (const text of [
    'The task-force asked for 12,000 tokens: risk-averse.',
    'req_01hx8zq6n6e3tb5g7m0c7v2k9d, key_01hx8zq6n6e3tb5g7m0c7v2k9d',
    'https://example.com:8443/a@b',
    'basic training',
    'The secret: be kind.',
  ]) {
    expect(redactSecrets(text)).toBe(text);
  }
});

it('takes linear time, also for adversarial text', () => {
  for (const piece of ['sk-', 'secret=', 'a://', 'bearer ', '-----BEGIN ', 'eyJ', 'token  :  ']) {
    const text = piece.repeat(200_000 / piece.length);
    expect(redactSecrets(text).length).toBeGreaterThan(0);
  }
});
