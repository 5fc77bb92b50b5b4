import { afterEach, expect, it, vi } from 'vitest';
import { createProgram, runProgram } from './program.ts';

afterEach(() => vi.unstubAllGlobals());

/** Exports from a service in which `changes` happen, one while each reading of it. */
async function exportWhile(changes: readonly { action: string; resource_id: string }[]) {
  const audit: object[] = [{ id: '0', action: 'policy.created', resource_id: 'pol_0' }];
  let readings = 0;
  vi.stubGlobal('fetch', async (request: Request) => {
    const { pathname } = new URL(request.url);
    if (pathname === '/api/v1/audit') return Response.json({ data: audit.toReversed(), next_page_token: '' });
    if (pathname !== '/api/v1/profiles') return Response.json({ data: [], next_page_token: '' });
    const change = changes[readings++];
    if (change) audit.push({ id: String(readings), ...change });
    const profile = { id: 'prf_1', name: `reading ${readings}`, strategy: 'ordered', targets: [] };
    return Response.json({ data: [profile], next_page_token: '' });
  });
  const out: string[] = [];
  const err: string[] = [];
  const cli = {
    env: { WEIGHBRIDGE_URL: 'http://gateway.test', WEIGHBRIDGE_KEY: 'sk-svc-operator' },
    version: '1.2.3',
    out: (text: string) => out.push(text),
    err: (text: string) => err.push(text),
    readFile: async () => '',
    writeFile: async () => {},
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const code = await runProgram(createProgram(cli), ['export'], cli);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

const changed = { action: 'policy.updated', resource_id: 'pol_1' };

it('an export is read again if something changed while it was read', async () => {
  expect(await exportWhile([])).toMatchObject({ code: 0, out: expect.stringContaining('reading 1') });
  expect(await exportWhile([changed, changed])).toMatchObject({
    code: 0,
    out: expect.stringContaining('reading 3'),
  });
});

it('an export of a service that keeps changing fails, and writes nothing', async () => {
  const { code, out, err } = await exportWhile(Array(9).fill(changed));
  expect([code, out, err]).toEqual([1, '', expect.stringContaining('changed while it was read, 5 times')]);
});

it('changes of what is in no file do not matter', async () => {
  const elsewhere = ['key.created', 'proxy.retired', 'request.corrected'].map((action) => ({
    action,
    resource_id: 'key_1',
  }));
  expect((await exportWhile(elsewhere)).out).toContain('reading 1');
});
