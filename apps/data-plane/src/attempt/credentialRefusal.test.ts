import { expect, it } from 'vitest';
import { connectorUnauthorized } from './credentialRefusal.ts';

it.each(['credential', 'unclear'] as const)(
  'the client learns the provider, and nothing of the account: %s',
  (about) => {
    const { kind, code, message, headers } = connectorUnauthorized('openai', about);
    expect([kind, code, headers]).toEqual([
      'upstream',
      'connector_unauthorized',
      { 'x-should-retry': 'false' },
    ]);
    expect(message).toContain('openai');
    expect(message).toContain('Your own key is fine');
  },
);
