import type { Span } from '@weighbridge/dialects';
import type { Field, Fields, ServerTool } from './requestFields/field.ts';

/** What is wrong with a field. */
export interface Violation {
  /** Such as `tools[3].type`. */
  readonly path: string;
  /** The path with empty brackets, as policies name it: `tools[].type`. */
  readonly pattern: string;
  readonly problem: 'unlisted' | 'duplicate' | 'cost' | 'value' | 'missing';
  /** Undefined for a field that the table does not have. */
  readonly field: Field | undefined;
  /** The value as it was sent, cut. */
  readonly given: string;
  /** The field may have other values. */
  readonly isOfValue: boolean;
  /** The fields that the object may have, for one that is not listed. */
  readonly siblings?: Fields;
}

/** A tool that the vendor would run without a bound. */
export interface RemovedTool {
  readonly path: string;
  readonly tool: string;
  /** Its `type` and `name`, by which a choice may force it. */
  readonly names: readonly string[];
  /** The field that would bound its uses. */
  readonly bound: ServerTool['uses'];
}

export interface RequestFindings {
  /** The names in prices of all tools that the vendor would run. */
  readonly serverTools: Set<string>;
  /** Those that it does not bill beside others of them. */
  readonly freeTools: Set<string>;
  /** How often the vendor's tools may be used, by tool. */
  readonly toolUses: Record<string, number>;
  /** The sum of the limits that tools themselves have. */
  toolPasses: number;
  /** There is a tool that only the request's own limit of calls bounds. */
  usesToolCalls: boolean;
  readonly removedTools: RemovedTool[];
  /** What to cut out of the body, so that the removed tools are not in it. */
  readonly cuts: Span[];
  /** Paths of lists of which nothing is left. */
  readonly emptied: string[];
  /** Something in the request is bounded only by the context window. */
  fillsContext: boolean;
  addedTokens: number;
  hasTools: boolean;
}

export interface WalkRules {
  /** Called for a violation; returns if it is allowed all the same. Undefined if none matters. */
  readonly refuse: ((violation: Violation) => void) | undefined;
  /** True if the policy allows the field of this pattern, or this value of it. */
  readonly allows: (pattern: string, value: string) => boolean;
  /** More members or items than a table allows are refused: not once the request is with its vendor, and has to be charged. */
  readonly isBounded: boolean;
  /** The tag of an object must be among its first members, or it is refused: before the request is sent, as above. */
  readonly findsTools?: boolean;
  /** The request's own limit of uses of the vendor's tools. */
  readonly maxToolCalls: number | undefined;
}
