import { AppError } from '@weighbridge/errors';
import { boundOf, FieldReader, parseSmall } from './fieldReader.ts';
import { scanFields } from './generationRequest.ts';
import { isRecord, recordsIn } from './jsonFields.ts';
import type { Operation } from './operation.ts';
import { type Field, type Fields, toolChoice } from './requestFields/field.ts';
import type { RemovedTool, RequestFindings, Violation } from './requestFindings.ts';
import { walkRequest } from './requestWalker.ts';
import type { Span } from './scanJson.ts';

/** Fields that hard budgets let pass all the same, as policies name them: `tools[].type`, or `tools[].type=mcp` for a value. */
export type AllowedFields = ReadonlySet<string>;

/** What a request under a hard budget may cost beside its bytes and its output limit, and how it is changed. */
export interface HardTerms {
  /** Tokens that the vendor adds to the input whatever the model does. */
  readonly addedTokens: number;
  /** How often the model's context window may be read besides. */
  readonly contextPasses: number;
  /** How often the vendor's tools may be used, by tool. */
  readonly toolUses: Readonly<Record<string, number>>;
  readonly removedTools: readonly RemovedTool[];
  /** What to cut out of the body, within its fields. */
  readonly cuts: readonly Span[];
  /** The fields to cut out of the body. */
  readonly removedFields: readonly string[];
}

/** Tokens that vendors add to the input of a request with tools: up to 804 at https://docs.anthropic.com. */
const TOOL_PROMPT_TOKENS = 1_024;
/** What only makes sense beside tools: vendors refuse it without. */
const TOOL_FIELDS = ['tools', 'tool_choice', 'parallel_tool_calls', 'toolConfig', 'tool_config'];
const CHOICE_FIELDS = new Set(['tools', 'tool_choice']);
const CHOICE: Fields = { tool_choice: toolChoice };
const MAX_CHOICE_BYTES = boundOf(CHOICE, 'tool_choice').bytes;
const LIMITS = new Set(['max_tool_calls']);

/**
 * Under a hard budget, the maximum cost must be known from the bytes of the request. Throws a 400 that names the field for
 * which it is not; tools that the vendor runs without a bound are to be removed instead, unless the request forces one.
 */
export function hardTerms(operation: Operation, body: Buffer, allowed: AllowedFields): HardTerms {
  const hasLimit = Object.hasOwn(operation.requestFields, 'max_tool_calls');
  const maxToolCalls = hasLimit
    ? new FieldReader(body, operation.requestFields).count(
        'max_tool_calls',
        scanFields(body, LIMITS).get('max_tool_calls'),
      )
    : undefined;
  const findings = walkRequest(body, operation.requestFields, {
    allows: (pattern, value) => isAllowed(allowed, pattern, value),
    refuse: (violation) => {
      // Which of two a vendor reads is never known.
      const isDuplicate = violation.problem === 'duplicate';
      if (isDuplicate || !isAllowed(allowed, violation.pattern, violation.given)) throw refusal(violation);
    },
    isBounded: true,
    maxToolCalls,
  });
  return termsOf(findings, body, maxToolCalls ?? 0);
}

function termsOf(findings: RequestFindings, body: Buffer, maxToolCalls: number): HardTerms {
  const { removedTools, emptied, fillsContext, addedTokens, hasTools, toolUses, toolPasses } = findings;
  const calls = findings.usesToolCalls ? maxToolCalls : 0;
  const hasNoTools = emptied.includes('tools');
  if (removedTools.length > 0) assertNotForced(body, removedTools, hasNoTools);
  return {
    addedTokens: addedTokens + (hasTools ? TOOL_PROMPT_TOKENS : 0),
    contextPasses: toolPasses + calls + (fillsContext ? 1 : 0),
    toolUses,
    removedTools,
    cuts: hasNoTools ? cutsOutside(findings.cuts, body) : findings.cuts,
    removedFields: hasNoTools ? TOOL_FIELDS : [],
  };
}

/** The whole field is cut. */
function cutsOutside(cuts: readonly Span[], body: Buffer): Span[] {
  const tools = scanFields(body, CHOICE_FIELDS).get('tools');
  return cuts.filter(({ start, end }) => !tools || end <= tools.start || start >= tools.end);
}

/** Throws a 400 if `tool_choice` makes the model use a tool that is removed. */
function assertNotForced(body: Buffer, removed: readonly RemovedTool[], hasNoTools: boolean): void {
  const span = scanFields(body, CHOICE_FIELDS).get('tool_choice');
  if (!span) return;
  const names = new Set(removed.flatMap((tool) => tool.names));
  const isLong = span.end - span.start > MAX_CHOICE_BYTES;
  const choice = parseSmall(body, span, MAX_CHOICE_BYTES);
  const forced = isLong || isForced(choice, names);
  const isAny = choice === 'required' || (isRecord(choice) && choice.type === 'any');
  if (!forced && !(hasNoTools && isAny)) return;
  const [first] = removed;
  throw new AppError(
    'invalid_request',
    'not_allowed_in_hard_mode',
    `tool_choice makes the model use ${first?.path} (${first?.tool}), which this key's hard budget removes: the vendor runs it, and nothing bounds its uses. Remove tool_choice${boundHint(first)}, or use a key whose policy has the budget_mode balanced.`,
    { param: 'tool_choice' },
  );
}

/** By its type, or by its name in the form of messages; or as one of several. */
function isForced(choice: unknown, names: ReadonlySet<string>): boolean {
  if (typeof choice === 'string') return names.has(choice);
  if (!isRecord(choice)) return false;
  const { type, name, tools, allowed_tools: allowed } = choice;
  if (type === 'tool') return typeof name === 'string' && names.has(name);
  if (typeof type === 'string' && names.has(type)) return true;
  const listed = isRecord(allowed) ? allowed.tools : tools;
  return recordsIn(listed).some((tool) => typeof tool.type === 'string' && names.has(tool.type));
}

function boundHint(tool: RemovedTool | undefined): string {
  return tool?.bound ? `, bound the uses by ${tool.bound}` : '';
}

/** An entry allows the field and all within it; with `=`, a value of it. */
function isAllowed(allowed: AllowedFields, pattern: string, given: string): boolean {
  if (allowed.size === 0) return false;
  if (allowed.has(`${pattern}=${unquoted(given)}`)) return true;
  for (let end = pattern.length; end > 0; end = pattern.lastIndexOf('.', end - 1)) {
    const part = pattern.slice(0, end);
    if (allowed.has(part) || (part.endsWith('[]') && allowed.has(part.slice(0, -2)))) return true;
  }
  return false;
}

function unquoted(given: string): string {
  return given.startsWith('"') ? given.slice(1, -1) : given;
}

/** What policies take as the value of an entry; a longer one may be cut. */
const ENTRY_VALUE = /^(?:[A-Za-z0-9_.:/-]{1,50}|"[A-Za-z0-9_.:/-]{1,50}")$/;

/** The entry of `hard_allow_fields` that lets the least pass besides: one value of the field, if the field may have others. */
function narrowestEntry({ pattern, given, isOfValue }: Violation): string {
  return isOfValue && ENTRY_VALUE.test(given) ? `${pattern}=${unquoted(given)}` : pattern;
}

/** As many bytes as a message may spend on what would be accepted. */
const MAX_ACCEPTED_LENGTH = 300;

function refusal(violation: Violation): AppError {
  const { path, problem } = violation;
  if (problem === 'duplicate') {
    return new AppError('invalid_request', 'duplicate_field', `"${path}" occurs twice. Send it once.`, {
      param: path,
    });
  }
  const message = `${reason(violation)} ${accepted(violation)} This key has a hard budget: an operator can add "${narrowestEntry(violation)}" to the hard_allow_fields of its policy, or set its budget_mode to balanced.`;
  return new AppError('invalid_request', 'not_allowed_in_hard_mode', message, { param: path });
}

function reason({ path, problem, field, given }: Violation): string {
  const shown = given === '' ? '' : ` ${given}`;
  if (problem === 'unlisted')
    return `The cost of the field ${path} cannot be known in advance: it is not a known field.`;
  if (problem === 'missing') return `${path} is missing: without it, the cost cannot be known in advance.`;
  if (problem === 'cost') {
    return `The cost of ${path}${shown} cannot be known in advance: ${field?.note ?? 'nothing bounds it'}.`;
  }
  return `${path} has the value${shown}, whose cost cannot be known in advance.`;
}

function accepted({ path, problem, field, siblings }: Violation): string {
  if (problem === 'unlisted') {
    const name = path.slice(path.lastIndexOf('.') + 1);
    const meant = Object.keys(siblings ?? {}).find((one) => one.toLowerCase() === name.toLowerCase());
    return meant ? `Write it as ${meant}.` : 'Remove it.';
  }
  if (problem === 'cost' || !field) return 'Remove it.';
  const texts = acceptedValues(field).join(', ');
  const cut = texts.length > MAX_ACCEPTED_LENGTH ? `${texts.slice(0, MAX_ACCEPTED_LENGTH)}…` : texts;
  return `Accepted: ${cut}.`;
}

function acceptedValues({ value }: Field): string[] {
  switch (value.kind) {
    case 'only':
      return value.values.map((one) => JSON.stringify(one));
    case 'count':
      return [
        `a whole number in digits from 1${value.most < Number.MAX_SAFE_INTEGER ? ` to ${value.most}` : ''}`,
      ];
    case 'variants':
      return Object.entries(value.variants).flatMap(([name, { cost }]) =>
        cost === 'unbounded' || cost === 'stored' ? [] : [`"${name}"`],
      );
    case 'list':
      return ['a list'];
    case 'map':
      return ['an object'];
    case 'object':
      return value.requires === undefined ? ['an object'] : [`an object with ${value.requires}`];
    case 'kinds':
      return [value.scalar && 'text', value.list && 'a list', value.object && 'an object'].filter(
        (one) => one !== undefined,
      );
    case 'any':
      return ['any value'];
  }
}
