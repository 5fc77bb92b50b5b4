import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect } from 'vitest';
import { type Json, startTestApi, type TestApi } from './testApi.ts';

export const KEY_ENCRYPTION_KEY = randomBytes(32);
export const CANARY = 'sk-canary-Zk3v9Qw7XbR2mLp8';
/** Makes the connector `env-openai`. */
export const ENVIRONMENT = { OPENAI_API_KEY: 'sk-of-the-environment' };

type Connector = Json & { id: string };

/** The operator API of a test file, with a key-encryption key, and a vendor that rejects every credential. */
export function useConnectorsApi() {
  let api: TestApi;
  let vendor: Server;
  let vendorUrl: string;
  beforeAll(async () => {
    vendor = createServer((request, response) => {
      response
        .writeHead(401)
        .end(JSON.stringify({ error: { message: `no: ${request.headers.authorization}` } }));
    });
    await new Promise<void>((ready) => vendor.listen(0, '127.0.0.1', ready));
    const host = `127.0.0.1:${(vendor.address() as AddressInfo).port}`;
    vendorUrl = `http://${host}/v1`;
    api = await startTestApi({
      ...ENVIRONMENT,
      WEIGHBRIDGE_KEY_ENCRYPTION_KEY: KEY_ENCRYPTION_KEY.toString('base64'),
      ALLOWED_UPSTREAM_HOSTS: host,
      VENDOR_KEY: 'sk-by-reference',
    });
  });
  afterAll(async () => {
    await api?.close();
    vendor?.close();
  });
  let count = 0;
  const uniqueName = () => `test ${++count}`;
  return {
    get api() {
      return api;
    },
    get vendorUrl() {
      return vendorUrl;
    },
    uniqueName,
    async create(fields: Json = {}): Promise<Connector> {
      const { status, body } = await api.call('POST', '/connectors', {
        body: { name: uniqueName(), provider: 'groq', ...fields },
      });
      expect(status, JSON.stringify(body)).toBe(201);
      return body as Connector;
    },
    async revision(): Promise<bigint> {
      return (await api.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow()).revision;
    },
    /** The audited actions on a resource, oldest first. */
    async auditOf(id: string): Promise<string[]> {
      const log = api.db.selectFrom('audit_log').select('action').where('resource_id', '=', id).orderBy('id');
      return (await log.execute()).map(({ action }) => action);
    },
  };
}

/** The status of a response, the code of its error, and the field at fault. */
export async function refusalOf(response: Promise<{ status: number; body: Json }>) {
  const { status, body } = await response;
  const error = body.error as { code: string; param: string | null } | undefined;
  return [status, error?.code, error?.param];
}
