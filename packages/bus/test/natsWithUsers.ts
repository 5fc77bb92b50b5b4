import { startNats, type TestNats } from '@weighbridge/testing';
import { afterAll, beforeAll } from 'vitest';
import { NATS_USERS, type NatsUser, natsConfiguration } from '../src/permissions/permissions.ts';

/** A NATS server that knows these users only, each with its name as part of its password. */
export function useNatsWithUsers(users: readonly NatsUser[] = NATS_USERS): (user: string) => string {
  let nats: TestNats;
  beforeAll(async () => {
    const env = Object.fromEntries(
      users.map(({ user, passwordVariable }) => [passwordVariable, passwordOf(user)]),
    );
    nats = await startNats({ configuration: { text: natsConfiguration(users), env } });
  });
  afterAll(() => nats?.stop());
  return (user) => nats.url.replace('://', `://${user}:${encodeURIComponent(passwordOf(user))}@`);
}

const passwordOf = (user: string): string => `pass:word@${user}/`;
