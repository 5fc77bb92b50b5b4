import { expect, it } from 'vitest';
import { spoolChecks } from './spoolChecks.ts';

const MIB = 1_048_576;
const spool = { folder: '/spools/a', producerId: 'p', bytes: 0, epochs: 1, isHeld: true };
const check = (facts: Partial<typeof spool>) => spoolChecks([{ ...spool, ...facts }], '/spools/a', 100 * MIB);

it('warns of a spool in use that fills, and fails where it is nearly full', () => {
  expect(check({ bytes: 10 * MIB })).toMatchObject([{ level: 'ok', detail: 'in use, 10 % full' }]);
  expect(check({ bytes: 60 * MIB })).toMatchObject([{ level: 'warn', detail: 'in use, 60 % full' }]);
  expect(check({ bytes: 95 * MIB })).toMatchObject([
    { level: 'fail', advice: expect.stringContaining('look at NATS and metering') },
  ]);
});

it('warns of what is left where no process is', () => {
  expect(check({ isHeld: false, bytes: 3 * MIB, epochs: 2 })).toMatchObject([
    {
      level: 'warn',
      detail: 'no process works on it, and 3 MiB of 2 runs of the producer p are left in it',
      advice: expect.stringContaining('weighbridge spool replay /spools/a'),
    },
  ]);
  expect(check({ isHeld: false, epochs: 0 })).toMatchObject([{ level: 'ok' }]);
  expect(spoolChecks([], '/spools/a', MIB)).toMatchObject([{ level: 'ok' }]);
});
