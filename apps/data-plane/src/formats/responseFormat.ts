import { NO_TOOL_USES, type OtherUsage, type TokenUsage, type ToolUses } from '@weighbridge/domain';
import { isRecord, type JsonRecord, parseJson } from './jsonFields.ts';
import type { Shape } from './jsonShape.ts';
import { hasMarker } from './markers.ts';
import { pruneJson } from './pruneJson.ts';
import { responseIdOf } from './responseId.ts';
import { mostUses, type ToolItemCounter } from './toolUses.ts';

/** The conditions that a response says it was served under; undefined where it says nothing. */
export interface SaidConditions {
  readonly serviceTier?: string | undefined;
  readonly speed?: string | undefined;
  readonly geography?: string | undefined;
}

/** What a response reports about itself; for a stream, what it has reported so far. */
export interface ResponseFacts {
  /** Undefined if the vendor has not reported it. */
  usage: TokenUsage | undefined;
  /** What an interrupted stream reported: its whole input, but not its whole output. */
  partialUsage: TokenUsage | undefined;
  /** The usage is that of the whole response: nothing that follows changes it. */
  isFinal: boolean;
  /** The event that ends a stream has passed. */
  isOver: boolean;
  /** Cache writes are reported by their time to live. */
  hasCacheLives: boolean;
  /** They decide the price. */
  said: SaidConditions;
  toolUses: ToolUses;
  /** What the vendor bills beside `usage`. */
  others: readonly OtherUsage[];
  /** Counts the output items of a stream. */
  toolItems: ToolItemCounter | undefined;
  /** The vendor's usage object, merged from several events. */
  usageFields: JsonRecord;
  /** The vendor's name of the model that answered; empty if it is not named. */
  model: string;
  responseId: string;
  /** The other objects that it names and the vendor keeps; undefined if it names none. */
  objects: NamedInAnswer | undefined;
  /** What the vendor says of a response that it stores, such as `completed`; empty if it says nothing. */
  status: string;
  /** The vendor is still working after it answered, so the usage is not known yet. */
  pending: boolean;
  /** The vendor reported an error after it answered 200. */
  failed: boolean;
  /** Part of the response could not be read, so what it reports may be incomplete. */
  unreadable: boolean;
  /** Of a stream with several choices: those that began, and those that ended, one bit for each. */
  begunChoices: number;
  endedChoices: number;
}

/** Objects that an answer names, in the order in which it does. */
export interface NamedInAnswer {
  readonly ids: Map<string, NamedKind>;
  /** It names more than are recorded: its client may not have it. */
  isFull: boolean;
  /** The vendor keeps them until someone deletes them: they belong to a conversation. */
  areLasting: boolean;
  /** The id of that conversation. */
  conversation?: string;
}

/** An item is stored with its response, if that is; the rest, such as a container, is there in any case. */
export type NamedKind = 'item' | 'other';

/** What a response names, as far as it was read. */
export type NamedFacts = Pick<ResponseFacts, 'responseId' | 'objects' | 'unreadable'>;

/** More than any answer names. */
const MAX_NAMED = 2_048;

/** Notes an object that an answer names; anything but an id is passed over. */
export function nameObject(facts: ResponseFacts, id: unknown, kind: NamedKind = 'other'): void {
  const text = responseIdOf(id);
  if (text === '') return;
  facts.objects ??= { ids: new Map(), isFull: false, areLasting: false };
  const { ids } = facts.objects;
  if (ids.has(text)) return;
  if (ids.size < MAX_NAMED) ids.set(text, kind);
  else facts.objects.isFull = true;
}

/** Where the responses of an operation report their usage. One per API shape. */
export interface ResponseFormat {
  /** Field names, as `fieldMarker` writes them. Only the first event and events with one of these are parsed. */
  readonly markers: readonly Buffer[];
  /** What is read of an event's data, a JSON object. */
  readonly eventShape: Shape;
  /** What is read of a whole response, a JSON object. */
  readonly bodyShape: Shape;
  /** The same without the parts that only count if one of `details` is in the response: most have none of them. */
  readonly plainBodyShape: Shape;
  readonly details: readonly Buffer[];
  /** Updates `facts` from what was read of an event. Returns true if the event only reports usage. */
  readEvent(event: JsonRecord, facts: ResponseFacts): boolean;
  /** Notes what an event names that has begun, and passes in pieces. */
  readonly readNames?: (event: JsonRecord, facts: ResponseFacts) => void;
  /** One of `markers`, for a field that names an object in most events: only those that name a new one are parsed. */
  readonly idMarker?: Buffer;
  /** Updates `facts` from what was read of a whole response. */
  readBody(body: JsonRecord, facts: ResponseFacts): void;
  /** The text that the model wrote, from a parsed event: counted if the vendor reports no usage. */
  textOfEvent(event: JsonRecord): string;
  /** The same from a parsed whole response. */
  textOfBody(response: JsonRecord): string;
}

export function noFacts(): ResponseFacts {
  return {
    usage: undefined,
    partialUsage: undefined,
    isFinal: false,
    isOver: false,
    hasCacheLives: false,
    said: NOTHING_SAID,
    toolUses: NO_TOOL_USES,
    others: NO_OTHERS,
    toolItems: undefined,
    usageFields: {},
    model: '',
    responseId: '',
    objects: undefined,
    status: '',
    pending: false,
    failed: false,
    unreadable: false,
    begunChoices: 0,
    endedChoices: 0,
  };
}

const NOTHING_SAID: SaidConditions = {};
const NO_OTHERS: readonly OtherUsage[] = [];

/** Updates `facts` from the data of an event that is held whole. Returns true if the event only reports usage. */
export function readEvent(format: ResponseFormat, data: Buffer, facts: ResponseFacts): boolean {
  return format.readEvent(pruneJson(data, format.eventShape), facts);
}

/** Updates `facts` from a response that is held whole. */
export function readBody(format: ResponseFormat, body: Buffer, facts: ResponseFacts): void {
  const isPlain = !format.details.some((detail) => hasMarker(body, detail));
  format.readBody(pruneJson(body, isPlain ? format.plainBodyShape : format.bodyShape), facts);
}

/** Uses that were reported in two places are counted once. */
export function addToolUses(facts: ResponseFacts, uses: ToolUses): void {
  if (uses !== NO_TOOL_USES) facts.toolUses = mostUses(facts.toolUses, uses);
}

/** A field's name as JSON writes it. A name with escapes would not match, but no vendor writes one. */
export function fieldMarker(name: string): Buffer {
  return Buffer.from(`"${name}"`);
}

/** A vendor's text; empty if it is none, or longer than a model's name. */
export function nameOf(value: unknown): string {
  return typeof value === 'string' && value.length <= 256 ? value : '';
}

/** A vendor's text; undefined if it is none. */
export function saidOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What the model wrote in a whole response; the body itself if it is not a JSON object. */
export function textOfBody(format: ResponseFormat, body: Buffer): string {
  const value = parseJson(body);
  return isRecord(value) ? format.textOfBody(value) : body.toString('utf8');
}
