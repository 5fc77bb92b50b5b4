import type { GenerationRequest } from './generationRequest.ts';
import { MEDIA } from './requestFields/notes.ts';
import type { Violation } from './requestFindings.ts';
import { walkRequest } from './requestWalker.ts';

/** What of a request's cost its bytes do not tell, by the table of its operation: what a hard budget refuses, removes or adds. */
export interface UnknownCosts {
  /** Media, and what the vendor stores or adds: it may fill the context window of the model. */
  readonly input: boolean;
  /** The vendor may run tools, which are billed, and read what they found. */
  readonly tools: boolean;
  /** Output that is not shown, or not text; and what no one knows. */
  readonly output: boolean;
}

const KNOWN = new WeakMap<object, UnknownCosts>();

/** Looks through the whole body, once: to be asked only if the vendor has not reported the usage. */
export function unknownCosts({
  operation,
  body,
}: Pick<GenerationRequest, 'operation' | 'body'>): UnknownCosts {
  const known = KNOWN.get(body);
  if (known) return known;
  const costs = { input: false, tools: false, output: false };
  const { serverTools, fillsContext } = body.readJoined((bytes) =>
    walkRequest(bytes, operation.requestFields, {
      allows: () => false,
      refuse: (violation) => {
        costs[partOf(violation)] = true;
      },
      isBounded: false,
      maxToolCalls: undefined,
    }),
  );
  costs.tools ||= serverTools.size > 0;
  costs.input ||= fillsContext;
  KNOWN.set(body, costs);
  return costs;
}

function partOf({ problem, field, path }: Violation): keyof UnknownCosts {
  if (problem === 'cost' && field) {
    if (field.cost === 'stored' || field.note === MEDIA) return 'input';
    return field.isOutput ? 'output' : 'tools';
  }
  // A value that a limit or a choice may not have.
  if (field?.value.kind === 'only' || field?.value.kind === 'count') return 'output';
  // A part of a kind that no one knows may stand for anything; a field of the whole request is a setting.
  return problem === 'unlisted' && !/[.[]/.test(path) ? 'output' : 'input';
}
