import { fileURLToPath } from 'node:url';
import { createTestDatabase, startTestIssuer, TEST_AUDIENCE } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { addRareRecords } from '../rareRecords.ts';
import { newDataDir, removeDataDir, startUp } from '../startUp.ts';

/** A new embedded service for a client to do anything with. It can't reach other machines. */
export interface ServiceForClients {
  readonly url: string;
  readonly operatorKey: string;
  /** A key of the principal `member` with all scopes but `operator`. */
  readonly memberKey: string;
  /**
   * The token of an operator. Unlike a key, nothing that a client does can revoke it, so it issues new keys to a client that
   * revoked or disabled its own.
   */
  readonly operatorToken: string;
  /** What the service has logged. */
  log(): string;
  close(): Promise<void>;
}

const SCOPES = ['keys:read', 'keys:write', 'usage:read', 'models:read'];
export const MEMBER_SCOPES = [...SCOPES, 'inference'];
const GUARD = new URL('loopbackOnly.mjs', import.meta.url).href;

export async function startServiceForClients(): Promise<ServiceForClients> {
  const dataDir = await newDataDir('weighbridge-clients-');
  const issuer = await startTestIssuer();
  const database = await createTestDatabase();
  const { process, service } = await startUp(dataDir, {
    DATABASE_URL: database.url,
    NODE_OPTIONS: `--import=${GUARD}`,
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: TEST_AUDIENCE,
    OIDC_SCOPE_MAP: JSON.stringify({ operators: [...SCOPES, 'operator'] }),
  });
  // Enough for each to be read, released, discarded and retired.
  await addRareRecords(database.url, 20);
  const known = await manage(service, 'PUT', '/api/v1/principals/oidc-operator', {
    body: { policy_id: null },
  });
  expect(known.status).toBe(200);
  const body = { name: 'member', principal_id: 'member', scopes: MEMBER_SCOPES };
  const member = await manage(service, 'POST', '/api/v1/keys', { body });
  expect(member.status, JSON.stringify(member.body)).toBe(201);
  return {
    url: service.managementUrl,
    operatorKey: service.operatorKey,
    memberKey: String(member.body.key),
    operatorToken: await issuer.token(new Date(), { sub: 'oidc-operator', groups: ['operators'] }),
    log: () => process.output(),
    async close() {
      await process.stop();
      await issuer.close();
      await database.drop();
      await removeDataDir(dataDir);
    },
  };
}

/** A file of this folder. */
export function fileOfClients(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}
