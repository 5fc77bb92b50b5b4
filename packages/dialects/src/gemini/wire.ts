import type {
  Content,
  FunctionCall,
  FunctionDeclaration,
  FunctionResponse,
  GenerateContentConfig,
  Part as PartWire,
  ToolConfig,
  Tool as ToolWire,
} from '@google/genai';
import type { KeptShape } from '../json/parseBody.ts';
import { Fields, isRecord, type ReadContext } from '../loss/fields.ts';

export type { Content, FunctionCall, FunctionDeclaration, FunctionResponse, PartWire, ToolWire };

/** Members of `generationConfig` are at the top level of the SDK's configuration. */
export type ConfigWire = GenerateContentConfig & { readonly responseFormat?: unknown };

/** The body of `generateContent` (https://ai.google.dev/api/generate-content). */
export interface GeminiBody {
  readonly model?: string;
  readonly contents?: Content[];
  readonly systemInstruction?: Content;
  readonly tools?: ToolWire[];
  readonly toolConfig?: ToolConfig;
  readonly safetySettings?: unknown;
  readonly generationConfig?: ConfigWire;
  readonly cachedContent?: string;
  readonly labels?: unknown;
  readonly serviceTier?: unknown;
  readonly store?: unknown;
}

/** The members of an object, in either of the spellings that the API takes: both are read by the first. */
export function geminiFields<Wire extends object>(
  value: unknown,
  path: string,
  context: ReadContext,
): Fields<Wire> | undefined {
  if (!isRecord(value)) {
    context.losses.add(path, 'refused', 'expected an object');
    return undefined;
  }
  return new Fields<Wire>(inCamelCase(value), path, context);
}

function inCamelCase(value: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const names = Object.keys(value);
  if (!names.some((name) => name.includes('_'))) return value;
  return Object.fromEntries(names.map((name) => [camelCase(name), value[name]]));
}

function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A shape whose members are kept in either spelling. */
export function inBothSpellings(shape: KeptShape): KeptShape {
  if (shape === 'kept') return shape;
  const { members, items } = shape;
  const spelled: Record<string, KeptShape> = {};
  for (const [name, member] of Object.entries(members ?? {})) {
    const both = inBothSpellings(member);
    spelled[name] = both;
    spelled[snakeCase(name)] = both;
  }
  return { ...(members && { members: spelled }), ...(items && { items: inBothSpellings(items) }) };
}

/** A signature is base64 there, so an envelope of ours is, too. */
export function encodeSignature(envelope: string): string {
  return Buffer.from(envelope).toString('base64');
}

/** What `encodeSignature` encoded, in either alphabet; another signature as it is. */
export function decodeSignature(signature: string, prefix: string): string {
  // The first characters tell: the rest can be many KiB.
  if (!Buffer.from(signature.slice(0, 8), 'base64').toString().startsWith(prefix)) return signature;
  return Buffer.from(signature, 'base64').toString();
}

/** The id of a signature that belongs to the text before it. */
export const SIGNED_TEXT = 'text';
