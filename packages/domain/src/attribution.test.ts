import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAttribution } from './attribution.ts';

const labels = (text: string | string[]) => parseAttribution({ 'x-svc-labels': text }).labels;

describe('attribution', () => {
  it('reads the ten headers', () => {
    const attribution = parseAttribution({
      'x-svc-session-id': 's-1',
      'x-svc-user': 'ada',
      'x-svc-team': 'engines',
      'x-svc-project': 'notes',
      'x-svc-env': 'prod',
      'x-svc-labels': 'tier=gold,region=eu',
      'x-svc-workload-type': 'chat',
      'x-svc-namespace': 'ns',
      'x-svc-workload': 'deploy/web',
      'x-svc-pod': 'web-0',
    });
    expect(attribution).toMatchObject({
      user: 'ada',
      team: 'engines',
      project: 'notes',
      env: 'prod',
      labels: { tier: 'gold', region: 'eu' },
      namespace: 'ns',
      workload: 'deploy/web',
      pod: 'web-0',
      session: { text: 's-1' },
      workloadType: { text: 'chat' },
    });
  });

  it('is empty without headers', () => {
    expect(parseAttribution({})).toEqual({ labels: {} });
  });

  it('skips malformed pairs: no "=", no key, a key over 64 characters', () => {
    expect(labels(`a=1,novalue,=x, ,${'k'.repeat(65)}=1,${'k'.repeat(64)}=2`)).toEqual({
      a: '1',
      ['k'.repeat(64)]: '2',
    });
  });

  it('splits at the first "=", trims, and takes quotes and % literally', () => {
    expect(labels(' a = b=c , q="x y" ,p=%20')).toEqual({ a: 'b=c', q: '"x y"', p: '%20' });
  });

  it('lets the last duplicate win and keeps the first 32 keys', () => {
    const many = Array.from({ length: 40 }, (_, i) => `k${i}=${i}`).join(',');
    const read = labels(`${many},k0=last`);
    expect(Object.keys(read)).toHaveLength(32);
    expect(read).toMatchObject({ k0: 'last', k31: '31' });
  });

  it('joins repeated header lines', () => {
    expect(labels(['a=1', 'b=2'])).toEqual({ a: '1', b: '2' });
  });

  it('truncates values to 256 characters, and hashes full sessions and workload types', () => {
    const long = '😀'.repeat(300);
    const sent = Buffer.from(long).toString('latin1');
    const { user, session } = parseAttribution({ 'x-svc-user': sent, 'x-svc-session-id': sent });
    expect(user).toBe('😀'.repeat(256));
    expect(session?.text).toBe('😀'.repeat(256));
    expect(session?.sha256).toEqual(createHash('sha256').update(long).digest());
  });

  it("prefers the operator's values, label by label", () => {
    const locked = { team: 'billing', labels: { tier: 'free' } };
    const attribution = parseAttribution(
      { 'x-svc-team': 'mine', 'x-svc-user': 'ada', 'x-svc-labels': 'tier=gold,a=1' },
      locked,
    );
    expect(attribution).toEqual({ user: 'ada', team: 'billing', labels: { tier: 'free', a: '1' } });
  });

  it('accepts a label named like a member of Object.prototype', () => {
    expect(Object.entries(labels('__proto__=1,constructor=2'))).toEqual([
      ['__proto__', '1'],
      ['constructor', '2'],
    ]);
  });

  it('never throws', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        parseAttribution({ 'x-svc-labels': text, 'x-svc-user': text, 'x-svc-session-id': text });
      }),
    );
  });
});
