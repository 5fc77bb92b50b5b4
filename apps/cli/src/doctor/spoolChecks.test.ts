import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { spoolChecks, spoolDiskCheck } from './spoolChecks.ts';

const MIB = 1_048_576;
const spool = { folder: '/spools/a', producerId: 'p', bytes: 0, epochs: 1, isHeld: true };
const check = (facts: Partial<typeof spool>) => spoolChecks([{ ...spool, ...facts }], '/spools/a', 100 * MIB);

it('warns of a spool that fills up, and fails if it is nearly full', () => {
  expect(check({ bytes: 10 * MIB })).toMatchObject([{ level: 'ok', detail: 'in use, 10 % full' }]);
  expect(check({ bytes: 60 * MIB })).toMatchObject([{ level: 'warn', detail: 'in use, 60 % full' }]);
  expect(check({ bytes: 95 * MIB })).toMatchObject([
    { level: 'fail', advice: expect.stringContaining('check NATS and metering') },
  ]);
});

it('warns of an orphaned spool', () => {
  expect(check({ isHeld: false, bytes: 3 * MIB, epochs: 2 })).toMatchObject([
    {
      level: 'warn',
      detail: 'orphaned: no process uses it, and it holds 3 MiB from 2 runs of the producer p',
      advice: expect.stringContaining('weighbridge spool replay /spools/a'),
    },
  ]);
  expect(check({ isHeld: false, epochs: 0 })).toMatchObject([{ level: 'ok' }]);
  expect(spoolChecks([], '/spools/a', MIB)).toMatchObject([{ level: 'ok' }]);
});

describe('the disk of a spool', () => {
  it('must have room for what the spool may hold', async () => {
    const missing = join(tmpdir(), 'not', 'there', 'yet');
    expect(await spoolDiskCheck(missing, 1)).toMatchObject({ level: expect.stringMatching(/ok|warn/) });
    const tooLarge = await spoolDiskCheck(tmpdir(), 2 ** 70);
    expect(tooLarge).toMatchObject({
      level: 'warn',
      detail: expect.stringMatching(/are free, and SPOOL_MAX_BYTES/),
    });
  });

  it('must be a folder that may be written to', async () => {
    const inFile = await spoolDiskCheck('/dev/null/spools', 1);
    expect(inFile).toMatchObject({ level: 'fail', detail: expect.stringContaining('ENOTDIR') });
  });
});
