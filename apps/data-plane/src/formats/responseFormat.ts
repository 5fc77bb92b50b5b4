import {
  NO_TOOL_USES,
  type ServiceConditions,
  STANDARD_SERVICE,
  type TokenUsage,
  type ToolUses,
} from '@weighbridge/domain';
import { isRecord, type JsonRecord, parseJson } from './jsonFields.ts';

/** What a response reports about itself; for a stream, what it has reported so far. */
export interface ResponseFacts {
  /** Undefined if the vendor has not reported it. */
  usage: TokenUsage | undefined;
  /** What an interrupted stream reported: its whole input, but not its whole output. */
  partialUsage: TokenUsage | undefined;
  /** The conditions that the response was served under, which decide its price. */
  service: ServiceConditions;
  toolUses: ToolUses;
  /** The vendor's usage object, merged from several events. */
  usageFields: JsonRecord;
  responseId: string;
  /** The vendor is still working after it answered, so the usage is not known yet. */
  pending: boolean;
  /** The vendor reported an error after it answered 200. */
  failed: boolean;
  /** Part of the response could not be read, so what it reports may be incomplete. */
  unreadable: boolean;
}

/** Where the responses of an operation report their usage. One per API shape. */
export interface ResponseFormat {
  /** Field names, as `fieldMarker` writes them. Only the first event and events with one of these are parsed. */
  readonly markers: readonly Buffer[];
  /** Updates `facts` from an event's data, a JSON object. Returns true if the event only reports usage. */
  readEvent(data: Buffer, facts: ResponseFacts): boolean;
  /** Updates `facts` from a whole response, a JSON object. */
  readBody(body: Buffer, facts: ResponseFacts): void;
  /** The text that the model wrote, from a parsed event: counted if the vendor reports no usage. */
  textOfEvent(event: JsonRecord): string;
  /** The same from a parsed whole response. */
  textOfBody(response: JsonRecord): string;
}

export function noFacts(): ResponseFacts {
  return {
    usage: undefined,
    partialUsage: undefined,
    service: STANDARD_SERVICE,
    toolUses: NO_TOOL_USES,
    usageFields: {},
    responseId: '',
    pending: false,
    failed: false,
    unreadable: false,
  };
}

/** A field's name as JSON writes it. A name with escapes would not match, but no vendor writes one. */
export function fieldMarker(name: string): Buffer {
  return Buffer.from(`"${name}"`);
}

/** What the model wrote in a whole response; the body itself if it is not a JSON object. */
export function textOfBody(format: ResponseFormat, body: Buffer): string {
  const value = parseJson(body);
  return isRecord(value) ? format.textOfBody(value) : body.toString('utf8');
}
