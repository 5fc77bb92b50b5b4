import type { Fault } from './leaseLedger.ts';
import { referenceLedger } from './referenceLedger.ts';
import { runSimulation, type SimulationOptions } from './simulation.ts';

/** Options with which each fault shows soon. */
const FAULTS: Readonly<
  Record<Fault, Pick<SimulationOptions, 'mode' | 'calm' | 'maxInFlight' | 'usageRate'>>
> = {
  'settle-by-reserve': { mode: 'hard' },
  'close-returns-unsettled': { mode: 'hard' },
  'expiry-refunds': { mode: 'hard' },
  'expiry-reversed-whole': { mode: 'hard' },
  'expiry-reversed-by-cost': { mode: 'hard' },
  'restart-refunds': { mode: 'hard' },
  'grants-again': { mode: 'hard' },
  'grants-as-deltas': { mode: 'hard' },
  'returns-as-deltas': { mode: 'hard' },
  'counter-not-carried': { mode: 'hard' },
  'stamp-at-settle': { mode: 'hard' },
  'standing-for-each': { mode: 'hard' },
  'override-outlives': { mode: 'hard' },
  'override-end-refunds': { mode: 'hard' },
  'override-of-all-customers': { mode: 'hard' },
  'override-leaves-others': { mode: 'hard' },
  'replaced-charged-too': { mode: 'hard' },
  'replacement-not-reserved': { mode: 'hard' },
  'replacement-leaves-parents': { mode: 'hard' },
  'close-returns-quarantined': { mode: 'hard' },
  'closes-superseded': { mode: 'hard' },
  'closes-one-portion': { mode: 'hard' },
  'quarantined-not-charged': { mode: 'hard' },
  'quarantine-lacks-number': { mode: 'hard' },
  'release-counts-again': { mode: 'hard' },
  'release-settles-nothing': { mode: 'hard' },
  'discard-counts': { mode: 'hard' },
  'failover-keeps-set': { mode: 'hard' },
  'refused-keeps-part': { mode: 'hard' },
  'matched-at-settlement': { mode: 'hard' },
  'unknown-unlimited': { mode: 'hard' },
  'others-by-the-limit': { mode: 'hard' },
  'others-not-reserved': { mode: 'hard' },
  'counters-unbounded': { mode: 'hard' },
  'counters-of-all-keys': { mode: 'hard' },
  'counts-by-cost': { mode: 'hard' },
  'counts-not-reserved': { mode: 'hard' },
  'crash-forgets-counts': { mode: 'hard' },
  'windows-overlap': { mode: 'hard' },
  'window-outlives': { mode: 'hard' },
  'refused-opens-window': { mode: 'hard' },
  // Only what costs more than its lease holds raises what a counter has lost.
  'grant-ignores-appended': { mode: 'balanced' },
  'merge-settles-first': { mode: 'hard' },
  'merged-again': { mode: 'hard' },
  'merge-lost': { mode: 'hard' },
  // The forgotten overage exceeds what is in flight only if little is in flight and the ledger is far behind.
  'forget-overage': { mode: 'balanced', calm: true, maxInFlight: 1, usageRate: 0.02 },
};

export function faults(): Fault[] {
  return Object.keys(FAULTS) as Fault[];
}

/** The options of a simulation with a fault. */
export function faultySimulation(
  fault: Fault,
  seed: number,
  size: Pick<SimulationOptions, 'steps' | 'windowSteps'>,
): SimulationOptions {
  return { ...FAULTS[fault], ...size, seed, fault };
}

/** The first `count` seeds up to `last` with which the reference model fails with a fault, and the failures. */
export async function findBreaking(
  fault: Fault,
  size: Pick<SimulationOptions, 'steps' | 'windowSteps'>,
  { last, count }: { readonly last: number; readonly count: number },
): Promise<{ readonly seed: number; readonly how: string }[]> {
  const found: { seed: number; how: string }[] = [];
  for (let seed = 1; seed <= last && found.length < count; seed++) {
    try {
      await runSimulation(
        referenceLedger({ windowSteps: size.windowSteps, fault }),
        faultySimulation(fault, seed, size),
      );
    } catch (error) {
      found.push({ seed, how: (error as Error).message });
    }
  }
  return found;
}
