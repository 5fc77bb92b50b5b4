import { mintToken } from '@weighbridge/domain';
import { expectTable } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import {
  allBut,
  expectedFor,
  FAULTS,
  groupOf,
  HOLDERS,
  type Managed,
  managed,
  missingIds,
  nameOf,
  OF_TOKENS,
  ofTenants,
  refusalOf,
  useOperations,
  withId,
} from './everyOperation.ts';

/** Authentication and authorization of every management operation in the document, including new ones. */
const { api, issuer, keys, held, token, prepare, call, answerTo } = useOperations();

describe('every operation', () => {
  it('authenticates first: a call without a key is refused', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const response = await call(operation, { key: null, ids: 'no-such-thing', body: { no_such_field: 1 } });
      expect(refusalOf(response)).toEqual([401, 'missing_api_key']);
      expect(response.headers['www-authenticate']).toBe('Bearer');
    });
  });

  it('then checks the scope, before path and body, and names it', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const { key } = await api().issue({ scopes: allBut(operation) });
      // A caller without the scope learns nothing about resources.
      for (const ids of [undefined, 'no-such-thing']) {
        const response = await call(operation, { key, ...(ids && { ids }), body: { no_such_field: 1 } });
        expect(refusalOf(response)).toEqual([403, 'insufficient_scope']);
        expect(response.body.error).toMatchObject({ required_scope: operation.scope });
      }
    });
  });

  it('does for each role what it allows, and all for the operator key', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      // Who is refused changes nothing, so all of them ask for the same.
      const prepared = await prepare(operation);
      for (const holder of HOLDERS) {
        const expected = expectedFor(holder, operation);
        const isAllowed = expected === 'done';
        const response = await call(operation, { key: held[holder] ?? '', ...(!isAllowed && { prepared }) });
        const result = response.status < 300 ? 'done' : refusalOf(response);
        expect([holder, result], JSON.stringify(response.body)).toEqual([holder, expected]);
      }
      const response = await call(operation);
      expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
    });
  });

  it("hides another principal's resources, and shows its own", async () => {
    await expectTable(ofTenants, nameOf, async (operation) => {
      const { key } = await api().issue({ principal_id: 'somebody-else', scopes: [operation.scope] });
      for (const caller of [key, await token([operation.scope], 'somebody-else')]) {
        const response = await call(operation, { key: caller });
        if (operation.parameters.length > 0) expect(response.status).toBe(404);
        else expect(response.status).toBeLessThan(300);
      }
    });
  });

  it('answers every id that names nothing with one 404, whatever its query and body are', async () => {
    await expectTable(withId, nameOf, async (operation) => {
      const [first = '', ...others] = missingIds(operation);
      const expected = await answerTo(operation, first, 'none');
      expect(expected).toMatchObject({ status: 404 });
      for (const id of [first, ...others]) {
        expect(await answerTo(operation, id, 'none'), id).toEqual(expected);
      }
      for (const fault of Object.keys(FAULTS)) {
        expect(await answerTo(operation, first, fault), fault).toEqual(expected);
      }
    });
  });
});

/**
 * One hook authenticates all operations, as the tables above show by a missing key, a missing scope and the roles. So what it
 * makes of a key or token is tested on one operation that reads and one that writes.
 */
describe.each(['listKeys', 'createPolicy'])('the authentication, at %s', (name) => {
  const operation = managed.find((one) => one.operation === name) as Managed;

  it('rejects a malformed or unknown key', async () => {
    expect(refusalOf(await call(operation, { key: 'sk-svc-nonsense' }))).toEqual([401, 'invalid_api_key']);
    expect(refusalOf(await call(operation, { key: mintToken() }))).toEqual([401, 'invalid_api_key']);
  });

  it('rejects a disabled or expired key, whatever its scopes', async () => {
    expect(refusalOf(await call(operation, { key: keys.disabled }))).toEqual([401, 'key_disabled']);
    expect(refusalOf(await call(operation, { key: keys.expired }))).toEqual([401, 'key_expired']);
  });

  it('rejects a token that is expired, for another service or unsigned', async () => {
    const claims = { groups: OF_TOKENS.map(groupOf) };
    const expired = await issuer().token(new Date(api().now.getTime() - 2 * 60 * 60_000), claims);
    expect(refusalOf(await call(operation, { key: expired }))).toEqual([401, 'token_expired']);
    const others = await issuer().token(api().now, { ...claims, aud: 'another' });
    expect(refusalOf(await call(operation, { key: others }))).toEqual([401, 'invalid_token']);
    const [header, payload] = others.split('.');
    expect(refusalOf(await call(operation, { key: `${header}.${payload}.` }))).toEqual([
      401,
      'invalid_token',
    ]);
  });

  it('rejects a token whose groups do not map to the scope, or of an unknown principal', async () => {
    const response = await call(operation, { key: await token(allBut(operation)) });
    expect(refusalOf(response)).toEqual([403, 'insufficient_scope']);
    expect(response.body.error).toMatchObject({ required_scope: operation.scope });
    const strangers = await token(OF_TOKENS, 'a-stranger');
    expect(refusalOf(await call(operation, { key: strangers }))).toEqual([403, 'principal_unknown']);
  });

  it('accepts a token of an operator', async () => {
    const response = await call(operation, { key: await token(OF_TOKENS) });
    expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
  });
});
