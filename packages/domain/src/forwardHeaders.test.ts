import { describe, expect, it } from 'vitest';
import { forwardHeaderFault, HeaderNames, isNeverForwarded } from './forwardHeaders.ts';

const NEVER = [
  'authorization',
  'x-api-key',
  'api-key',
  'apikey',
  'x-goog-api-key',
  'x-openai-actor-authorization',
  'cookie',
  'set-cookie',
  'x-session-token',
  'x-amz-security-token',
  'proxy-authorization',
  'connection',
  'te',
  'transfer-encoding',
  'upgrade',
  'host',
  'expect',
  'content-type',
  'content-length',
  'content-encoding',
  'accept-encoding',
  'forwarded',
  'x-forwarded-for',
  'x-real-ip',
  'x-svc-user',
  'x-svc-anything',
  'openai-organization',
  'openai-project',
  'anthropic-workspace-id',
  'cf-access-jwt-assertion',
  'cf-access-authenticated-user-email',
  'x-goog-iap-jwt-assertion',
  'x-goog-authenticated-user-email',
  'x-amzn-oidc-data',
  'x-amzn-oidc-identity',
  'x-auth-request-email',
  'x-auth-request-access-token',
  'x-ms-client-principal',
  'x-ms-client-principal-name',
  'x-ms-token-aad-id-token',
  'x-pomerium-jwt-assertion',
];

describe('the headers that no operator can have forwarded', () => {
  it.each(NEVER)('%s', (name) => {
    expect(isNeverForwarded(name)).toBe(true);
    expect(forwardHeaderFault(name)).toBeDefined();
    // A pattern that covers it does not open it.
    const patterns = [name, `${name.slice(0, Math.max(2, name.indexOf('-') + 1))}*`];
    expect(new HeaderNames(patterns).has(name)).toBe(false);
  });

  it.each(['x-*', '*', 'x*', 'x-svc-*', 'x-goog-*', 'cf-*', 'x-auth-*', 'x-api-*', 'openai-*', 'x-acme*'])(
    'the pattern %s',
    (pattern) => {
      expect(forwardHeaderFault(pattern)).toBeDefined();
    },
  );

  it.each(['', 'a b', 'a:b', 'x-\u00e9', 'a\nb', 'x-acme-*-*', `x-${'a'.repeat(200)}`])(
    'what is no name: %j',
    (name) => {
      expect(forwardHeaderFault(name)).toBeDefined();
    },
  );
});

describe('the headers that an operator can have forwarded', () => {
  it.each([
    'x-title',
    'http-referer',
    'idempotency-key',
    'x-acme-*',
    'x-mock-*',
    'helicone-*',
    'x-max-tokens',
  ])('%s', (pattern) => {
    expect(forwardHeaderFault(pattern)).toBeUndefined();
    expect(new HeaderNames([pattern]).has(pattern.replace('*', 'some'))).toBe(true);
  });

  it('are found by whole names, or by their prefix', () => {
    const names = new HeaderNames(['x-title', 'x-acme-*']);
    const asked = ['x-title', 'x-titles', 'x-acme-', 'x-acme-a', 'x-acme', 'x-acme-token', 'x-acme-tokens'];
    expect(asked.filter((name) => names.has(name))).toEqual([
      'x-title',
      'x-acme-',
      'x-acme-a',
      'x-acme-tokens',
    ]);
  });

  it('are found after a client sent any number of other names', () => {
    const names = new HeaderNames(['x-title', 'x-acme-*']);
    for (let at = 0; at < 5_000; at++) {
      expect([names.has(`x-acme-${at}`), names.has(`x-other-${at}`)]).toEqual([true, false]);
    }
    expect(['x-title', 'x-acme-new', 'x-acme-token', 'x-new'].map((name) => names.has(name))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});
