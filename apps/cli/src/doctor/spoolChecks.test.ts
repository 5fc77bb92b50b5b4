import { expect, it } from 'vitest';
import { spoolChecks } from './spoolChecks.ts';

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
