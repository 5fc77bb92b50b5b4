import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectLinear } from '../../testing/src/linearTime.ts';
import { parseAttribution, sessionIdOf } from './attribution.ts';

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

  it.each([
    ['Claude Code', 'x-claude-code-session-id'],
    ['Codex', 'session-id'],
    ['an older Codex', 'session_id'],
    ['opencode', 'x-session-affinity'],
  ])("takes the session of %s, unless the request has this service's header", (_, name) => {
    expect(parseAttribution({ [name]: 's-1' }).session?.text).toBe('s-1');
    expect(sessionIdOf({ [name]: 's-1' })).toBe('s-1');
    expect(parseAttribution({ [name]: 's-1', 'x-svc-session-id': 's-2' }).session?.text).toBe('s-2');
    expect(parseAttribution({ [name]: 's-1', 'x-svc-session-id': '' }).session?.text).toBe('s-1');
    expect(parseAttribution({ [name]: '' })).toEqual({ labels: {} });
  });

  it("takes an agent's parts of a session as labels, after those of the key and of the request", () => {
    const agent = {
      'x-claude-code-session-id': 's-1',
      'x-claude-code-agent-id': 'a'.repeat(300),
      'x-claude-code-parent-agent-id': 'p-1',
    };
    expect(parseAttribution(agent).labels).toEqual({ agent: 'a'.repeat(256), parent_agent: 'p-1' });
    const named = parseAttribution(
      { ...agent, 'x-svc-labels': 'agent=mine' },
      { labels: { parent_agent: 'locked' } },
    );
    expect(named.labels).toEqual({ parent_agent: 'locked', agent: 'mine' });
    const many = Array.from({ length: 40 }, (_, at) => `l${at}=1`).join();
    expect(Object.keys(parseAttribution({ ...agent, 'x-svc-labels': many }).labels)).toHaveLength(32);
    expect(parseAttribution({ 'session-id': 's', 'thread-id': 't' }).labels).toEqual({ thread: 't' });
    expect(parseAttribution({ 'x-session-affinity': 's', 'x-parent-session-id': 'p' }).labels).toEqual({
      parent_session: 'p',
    });
  });

  it('takes no labels of agents without a session', () => {
    expect(parseAttribution({ 'x-claude-code-agent-id': 'a-1' })).toEqual({ labels: {} });
    expect(parseAttribution({ 'thread-id': 't', 'x-svc-user': 'ada' }).labels).toEqual({});
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

  it('takes what a policy maps after the headers of this service, and the user of a body last', () => {
    const headers = new Map([
      ['x-customer', 'user'],
      ['x-tier', 'labels.tier'],
      ['x-chat', 'session'],
    ]);
    const read = (sent: Record<string, string>, user?: string, locked = {}) =>
      parseAttribution(sent, locked, { headers, user });
    expect(read({ 'x-customer': ' ann ', 'x-tier': 'gold', 'x-chat': 'c1' }, 'body')).toMatchObject({
      user: 'ann',
      labels: { tier: 'gold' },
      session: { text: 'c1' },
    });
    expect(read({ 'x-customer': 'ann', 'x-svc-user': 'own' }, 'body').user).toBe('own');
    expect(read({ 'x-customer': 'ann', 'x-svc-user': '' }, 'body').user).toBe('ann');
    expect(read({ 'x-customer': '' }, 'body').user).toBe('body');
    expect(read({ 'x-customer': 'ann' }, 'body', { user: 'locked' }).user).toBe('locked');
    expect(read({ 'x-tier': 'gold', 'x-svc-labels': 'tier=own' }).labels).toEqual({ tier: 'own' });
    expect(read({ 'x-tier': 'gold' }, '', { labels: { tier: 'locked' } }).labels).toEqual({ tier: 'locked' });
    // An agent's own header comes after the policy's.
    expect(read({ 'session-id': 'agent', 'x-chat': 'c1' }).session?.text).toBe('c1');
    expect(read({ 'session-id': 'agent' }).session?.text).toBe('agent');
    expect(read({})).toEqual({ labels: {} });
  });

  it('reads a user of a body as a header could have it: cut, without control characters or halves of characters', () => {
    const user = (text: string) => parseAttribution({}, {}, { headers: new Map(), user: text }).user;
    expect(user(' a\u0000b\n')).toBe('a b');
    expect(user('\u0000')).toBeUndefined();
    expect(user('a\ud800')).toBe('a\ufffd');
    expect(user('é'.repeat(1_000))).toBe('é'.repeat(256));
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

/** As much as all headers of a request may have. */
const ALL_BYTES = 128 * 1024;

describe('headers of as many bytes as a request may have', () => {
  const filled = (text: string) => text.repeat(Math.ceil(ALL_BYTES / text.length)).slice(0, ALL_BYTES);
  const numbered = Array.from({ length: 12_000 }, (_, at) => `k${at}=v${at}`).join();

  it.each([
    ['commas', filled(',')],
    ['pairs', filled('a=b,')],
    ['different keys', numbered],
    ['one long value', `a=${filled('x')}`],
    ['one long key', filled('x')],
    ['equals signs', filled('=')],
    ['spaces', `a=b${filled(' ')}c`],
    ['quotes and percent signs', filled('"%')],
    ['bytes that are not UTF-8', filled('\u00ff')],
    ['characters of four bytes', `a=${filled('\u00f0\u009f\u0098\u0080')}`],
    ['names of objects', filled('__proto__=1,constructor=2,')],
  ])('made of %s are cut, and cost little', async (_, text) => {
    const names = ['user', 'team', 'labels', 'session-id', 'workload-type', 'pod'];
    for (const name of names) {
      const { labels, session, workloadType, ...plain } = parseAttribution({ [`x-svc-${name}`]: text });
      expect(Object.keys(labels).length).toBeLessThanOrEqual(32);
      const values = [...Object.entries(labels).flat(), ...Object.values(plain), session?.text ?? ''];
      for (const value of [...values, workloadType?.text ?? '']) {
        expect(Array.from(String(value)).length).toBeLessThanOrEqual(256);
      }
    }
    await expectLinear(ALL_BYTES / 4, (size) => {
      const part = text.slice(0, size);
      return () => {
        for (const name of names) parseAttribution({ [`x-svc-${name}`]: part });
      };
    });
  });
});
