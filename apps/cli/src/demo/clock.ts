/** The clock of the control plane while the company is created: as if that happened a month ago. */
export interface DemoClock {
  now(): Date;
  /** Sets it back by this much. */
  setBack(ms: number): void;
  /** From now on it is the machine's. */
  release(): void;
}

export function createDemoClock(): DemoClock {
  let behindMs = 0;
  return {
    now: () => new Date(Date.now() - behindMs),
    setBack(ms) {
      behindMs = ms;
    },
    release() {
      behindMs = 0;
    },
  };
}
