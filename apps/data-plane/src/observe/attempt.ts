import type { Outcome } from '@weighbridge/contracts';
import type { NanoUsd, TokenUsage } from '@weighbridge/domain';
import type { RoutableConnector } from '../control/routingTable.ts';
import type { Target } from '../control/target.ts';
import type { Body } from '../formats/body.ts';
import type { Call } from '../formats/call.ts';

/** What is sent to one connector. */
export interface Outgoing {
  readonly connector: RoutableConnector;
  readonly body: Body | undefined;
  /** What a model is asked to do; undefined where none works. */
  readonly work: Work | undefined;
}

/** A call of one model, with the limits that hold for it there. */
export interface Work extends Target {
  readonly call: Call;
}

/** What became of an attempt. Times are monotonic, in milliseconds. */
export interface AttemptEnd {
  readonly usage: TokenUsage;
  readonly costNanoUsd: NanoUsd;
  readonly estimated: boolean;
  readonly outcome: Outcome;
  /** 0 where the vendor gave none. */
  readonly status: number;
  readonly dispatchedAt: number;
  readonly firstByteAt: number | undefined;
  readonly responseId: string;
}
