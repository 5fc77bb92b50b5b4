import type { Fault } from './leaseLedger.ts';
import { referenceLedger } from './referenceLedger.ts';
import { runSimulation, type SimulationOptions } from './simulation.ts';

/** Worlds in which each of the faults shows soon. */
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
  // What is forgotten adds up beyond what is in flight at once only where little is, and the ledger is far behind.
  'forget-overage': { mode: 'balanced', calm: true, maxInFlight: 1, usageRate: 0.02 },
};

export function faults(): Fault[] {
  return Object.keys(FAULTS) as Fault[];
}

/** The options of a world with a fault. */
export function faultySimulation(
  fault: Fault,
  seed: number,
  size: Pick<SimulationOptions, 'steps' | 'windowSteps'>,
): SimulationOptions {
  return { ...FAULTS[fault], ...size, seed, fault };
}

/** The first seeds, of those up to `last`, with which the reference model breaks by a fault, and how. */
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
