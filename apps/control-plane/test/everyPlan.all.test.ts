import { expectTable } from '@weighbridge/testing';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { CHANGING_BODIES } from './changingBodies.ts';
import { managed, nameOf, useOperations } from './everyOperation.ts';
import type { Json } from './testApi.ts';

/** Every operation of the document that changes something, as a call of a plan. */
const { api, prepare, call } = useOperations();
const writes = managed.filter(({ method }) => method !== 'GET');

/** What is not only in the database, or is no configuration: nothing, or not all of it, could be undone. */
const NOT_PLANNABLE = [
  'approveFeedChange',
  'createCorrection',
  'discardQuarantined',
  'explainName',
  'explainProfile',
  'rebuildLedger',
  'redeliverWebhook',
  'refreshCatalogFeed',
  'rejectFeedChange',
  'releaseQuarantined',
  'retireProxy',
  'rotateWebhook',
  'testConnector',
  'testWebhook',
];
const REFUSED = { method: 'DELETE', path: '/api/v1/policies/pol_none' };

/** All rows of all tables. */
async function everything(): Promise<Json> {
  const { rows: tables } = await sql<{ name: string }>`
    SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`.execute(
    api().db,
  );
  const digests = tables.map(({ name }) => {
    const table = sql.raw(name);
    return sql`SELECT ${name}::text AS name, md5(coalesce(string_agg(t::text, '' ORDER BY t::text), '')) AS rows FROM ${table} AS t`;
  });
  const { rows } = await sql<{ name: string; rows: string }>`${sql.join(digests, sql` UNION ALL `)}`.execute(
    api().db,
  );
  return Object.fromEntries(rows.map((one) => [one.name, one.rows]));
}

/** What an operation leaves for auditors and for proxies, and its status. */
async function traces(run: () => Promise<{ readonly status: number }>): Promise<unknown> {
  const count = async () =>
    (
      await sql<{ audits: bigint; revision: bigint }>`
      SELECT (SELECT coalesce(max(id), 0) FROM audit_log) AS audits, revision FROM revision`.execute(api().db)
    ).rows[0];
  const before = await count();
  const { status } = await run();
  const { rows: audits } = await sql`
    SELECT action, actor_principal_id, actor_key_id FROM audit_log WHERE id > ${before?.audits} ORDER BY id`.execute(
    api().db,
  );
  const { rows: changes } = await sql`
    SELECT revision - ${before?.revision} AS revision, kind, reach FROM changes
    WHERE revision > ${before?.revision} ORDER BY revision`.execute(api().db);
  return { isDone: status < 300, audits, changes };
}

describe('every call of a plan', () => {
  it('changes nothing if a later one is refused, and else leaves what it leaves by itself', async () => {
    const apply = (calls: readonly object[]) => api().call('POST', '/apply', { body: { calls } });
    const refusedAlways: string[] = [];
    // A plan is no call of a plan.
    const rows = writes.filter(({ operation }) => operation !== 'applyPlan');
    await expectTable(rows, nameOf, async (operation) => {
      const twin = async () => {
        const { path, body } = await prepare(operation);
        return { path, body: CHANGING_BODIES[operation.operation]?.(0) ?? body };
      };
      const { path, body } = await twin();
      const planned = {
        method: operation.method,
        path: `/api/v1${path}`,
        ...(operation.takesBody && body !== undefined && { body }),
      };
      const before = await everything();
      const refused = await apply([planned, REFUSED]);
      expect(refused.status).toBe(422);
      expect(await everything()).toEqual(before);
      const errors = (refused.body.error as { errors: { index: number; code: string }[] }).errors;
      if (errors.some(({ code }) => code === 'not_plannable')) {
        refusedAlways.push(operation.operation);
        return;
      }
      expect(errors.map(({ index }) => index)).toEqual([1]);
      const inPlan = await traces(() => apply([planned]));
      const prepared = await twin();
      const byItself = await traces(() => call(operation, { prepared }));
      expect(inPlan).toMatchObject({ isDone: true });
      expect(inPlan).toEqual(byItself);
    });
    expect(refusedAlways.sort()).toEqual(NOT_PLANNABLE);
  });
});
