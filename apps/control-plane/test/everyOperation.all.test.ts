import { expectTable } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import {
  CHANGES_NOTHING,
  FAULTS,
  managed,
  nameOf,
  refusalOf,
  useOperations,
  withId,
} from './everyOperation.ts';
import { fixtures } from './fixtures.ts';

/** What else every management operation in the document does alike, including new ones. */
const { api, keys, call, answerTo } = useOperations();

describe('every operation', () => {
  it('answers a secret in its grace period only if it changes nothing', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const response = await call(operation, { key: keys.inGrace });
      const reads = operation.method === 'GET' || CHANGES_NOTHING.has(operation.operation);
      if (reads) expect(response.status, JSON.stringify(response.body)).toBe(200);
      else expect(refusalOf(response)).toEqual([403, 'secret_in_grace']);
    });
  });

  it("answers another principal's id as one that does not exist, byte for byte", async () => {
    const rows = withId.filter(({ scope }) => scope !== 'operator');
    await expectTable(rows, nameOf, async (operation) => {
      const { key } = await api().issue({ principal_id: 'somebody-else', scopes: [operation.scope] });
      const [name = ''] = operation.parameters;
      const theirs = await fixtures.parameter(api(), name, operation.operation);
      for (const fault of Object.keys(FAULTS)) {
        const unknown = await answerTo(operation, 'no-such-thing', fault, key);
        expect(unknown).toMatchObject({ status: 404 });
        expect(await answerTo(operation, theirs, fault, key), fault).toEqual(unknown);
      }
    });
  });

  it('treats SQL in its path and query as text', async () => {
    const text = `x'"); DROP TABLE keys; --`;
    await expectTable(managed, nameOf, async (operation) => {
      const queries = operation.filters.map((name) => `?${name}=${encodeURIComponent(text)}`);
      const named = operation.parameters.length > 0 && !fixtures.creates.has(operation.operation);
      for (const query of [...(named ? [''] : []), ...queries]) {
        const path = `${operation.path}${query}`;
        const response = await call({ ...operation, path }, { ...(named && { ids: text }) });
        expect(response.status, query).toBeLessThan(500);
      }
      expect((await api().call('GET', '/keys?page_size=1')).status).toBe(200);
    });
  });

  it('rejects an unknown field, also if it takes no body', async () => {
    const writes = managed.filter(({ method }) => method !== 'GET');
    await expectTable(writes, nameOf, async (operation) => {
      const response = await call({ ...operation, takesBody: true }, { body: { no_such_field: 1 } });
      expect(refusalOf(response)).toEqual([400, 'invalid_request']);
    });
  });

  it('rejects an unknown query parameter', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const response = await call({ ...operation, path: `${operation.path}?no_such_parameter=1` });
      expect(response.status).toBe(400);
    });
  });
});
