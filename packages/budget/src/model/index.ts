/** The rules of leases in their simplest form, with their plausible mistakes: the SQL of the ledger is compared with it. */
export { faultySimulation, findBreaking } from './faults.ts';
export {
  type Amounts,
  type AtRest,
  amountIn,
  type Counter,
  type Decision,
  type Fault,
  FURTHER_LIMITS,
  type FurtherName,
  firstUseSteps,
  type Holder,
  isByCustomer,
  isOfCustomer,
  type LeaseLedger,
  type LeaseName,
  MAIN_LIMITS,
  MAX_COUNTERS,
  OTHERS_LIMIT,
  type Overridden,
  POLICIES,
  type PolicyName,
  type SimulatedAnswer,
  type SimulatedCall,
  type SimulatedEvent,
  type SimulatedOverride,
  STANDING,
} from './leaseLedger.ts';
export { lockstep } from './lockstep.ts';
export { referenceLedger } from './referenceLedger.ts';
export { runSimulation } from './simulation.ts';
