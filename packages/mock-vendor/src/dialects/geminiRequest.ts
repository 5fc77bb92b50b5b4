import {
  ANY_OBJECT,
  type AnswerFormat,
  type Conversation,
  type Message,
  NOTHING_ASKED,
  type ServerTool,
  type ToolChoice,
} from '../model/conversation.ts';
import { GOOGLE_BODIES, readGoogle } from '../shared/googleFields.ts';
import { isRecord, type JsonRecord, optionalText, parseObject } from '../shared/parameters.ts';
import type { VendorTraits } from '../shared/traits.ts';
import { badRequest } from '../shared/vendorError.ts';

const MAX_CANDIDATES = 8;
/** Models before Gemini 3 bill searches by the prompt. */
const BILLED_BY_PROMPT = /^gemini-[12]\b/;
/** Tools that are billed by use, and the names of their prices. */
const SERVER_TOOLS: readonly (readonly [member: string, name: string])[] = [
  ['googleSearch', 'google_search'],
  ['googleSearchRetrieval', 'google_search'],
  ['googleMaps', 'google_maps'],
];

/** A parsed request to `generateContent`. */
export interface GeminiRequest extends Conversation {
  readonly stream: boolean;
}

/** The model in the path of a request, which is below `/v1` or `/v1beta`. */
export function modelInPath(path: string): string {
  const name = /\/models\/([^/]+):[a-zA-Z]+$/.exec(path)?.[1];
  if (name === undefined) throw badRequest('The path names no model.');
  return decodeURIComponent(name);
}

/** Parses and validates a body as Google does. */
export function parseGeminiRequest(
  body: Buffer,
  model: string,
  stream: boolean,
  traits: VendorTraits,
): GeminiRequest {
  return requestOf(readGoogle(parseObject(body), GOOGLE_BODIES.generate, traits.strict), model, stream);
}

/** What `countTokens` counts: contents, or a whole request. */
export function parseCountRequest(body: Buffer, model: string, traits: VendorTraits): GeminiRequest {
  const { contents, generateContentRequest } = readGoogle(
    parseObject(body),
    GOOGLE_BODIES.count,
    traits.strict,
  );
  return requestOf(isRecord(generateContentRequest) ? generateContentRequest : { contents }, model, false);
}

function requestOf(request: JsonRecord, model: string, stream: boolean): GeminiRequest {
  assertModel(request.model, model);
  const config = isRecord(request.generationConfig) ? request.generationConfig : {};
  const tools = Array.isArray(request.tools) ? request.tools.filter(isRecord) : [];
  return {
    model,
    messages: [...systemMessage(request.systemInstruction), ...messagesOf(request.contents)],
    tools: tools.flatMap(({ functionDeclarations: list }) =>
      (Array.isArray(list) ? list : []).filter(isRecord).map((one) => ({
        name: String(one.name),
        parameters: one.parametersJsonSchema ?? one.parameters,
      })),
    ),
    toolChoice: toolChoice(request.toolConfig),
    choices: integer(config, 'candidateCount', MAX_CANDIDATES) ?? 1,
    maxOutputTokens: integer(config, 'maxOutputTokens', 2 ** 31),
    asked: {
      ...NOTHING_ASKED,
      serviceTier: optionalText(request, 'serviceTier'),
      serverTools: serverTools(tools, model),
    },
    answerFormat: answerFormat(config),
    body: request,
    stream,
  };
}

/** A body may repeat the model of the path, and name no other. */
export function assertModel(given: unknown, model: string): void {
  if (given === undefined || given === null || given === `models/${model}`) return;
  throw badRequest(`Invalid value at 'model': it must be "models/${model}", as in the path.`);
}

function systemMessage(content: unknown): Message[] {
  return isRecord(content) ? [{ role: 'system', text: textOf(content) }] : [];
}

function messagesOf(contents: unknown): Message[] {
  if (!Array.isArray(contents) || contents.length === 0)
    throw badRequest('* GenerateContentRequest.contents: contents is not specified');
  return contents.map((content: unknown, at) => {
    const { role = 'user', parts } = isRecord(content) ? content : {};
    if (role !== 'user' && role !== 'model' && role !== 'function')
      throw badRequest('Please use a valid role: user, model.');
    if (!Array.isArray(parts) || parts.length === 0)
      throw badRequest(`* GenerateContentRequest.contents[${at}].parts: contents.parts must not be empty.`);
    const isResult = parts.some((part) => isRecord(part) && part.functionResponse !== undefined);
    return { role: isResult ? 'tool' : role === 'model' ? 'assistant' : 'user', text: textOf({ parts }) };
  });
}

/** The text of a content's parts. */
export function textOf({ parts }: JsonRecord): string {
  return (Array.isArray(parts) ? parts : [])
    .flatMap((part: unknown) => {
      if (!isRecord(part)) return [];
      const { text, functionCall, functionResponse } = part;
      const others = [functionCall, functionResponse]
        .filter(isRecord)
        .map((one) => JSON.stringify(one.args ?? one.response));
      return typeof text === 'string' ? [text, ...others] : others;
    })
    .join('\n');
}

function toolChoice(config: unknown): ToolChoice {
  const calling =
    isRecord(config) && isRecord(config.functionCallingConfig) ? config.functionCallingConfig : {};
  if (calling.mode === 'NONE') return 'none';
  if (calling.mode !== 'ANY') return 'auto';
  const [only, ...others] = Array.isArray(calling.allowedFunctionNames) ? calling.allowedFunctionNames : [];
  return typeof only === 'string' && others.length === 0 ? { name: only } : 'required';
}

function serverTools(tools: readonly JsonRecord[], model: string): ServerTool[] {
  return SERVER_TOOLS.flatMap(([member, name]) => {
    if (!tools.some((tool) => tool[member] !== undefined && tool[member] !== null)) return [];
    const maxUses = name === 'google_maps' || BILLED_BY_PROMPT.test(model) ? 1 : undefined;
    return [{ name, maxUses, model: undefined }];
  });
}

/** Google knows three names for a schema, and enums without quotes. */
function answerFormat(config: JsonRecord): AnswerFormat | undefined {
  const { responseMimeType: type, responseSchema, responseJsonSchema, _responseJsonSchema } = config;
  const schema = responseSchema ?? responseJsonSchema ?? _responseJsonSchema ?? undefined;
  if (schema !== undefined) return { schema, isBare: type === 'text/x.enum' };
  return type === 'application/json' ? ANY_OBJECT : undefined;
}

/** Google takes numbers as texts too. */
function integer(config: JsonRecord, name: string, max: number): number | undefined {
  const given = config[name] ?? undefined;
  if (given === undefined) return undefined;
  const value = typeof given === 'string' ? Number(given) : given;
  if (typeof value !== 'number' || !Number.isInteger(value))
    throw badRequest(`Invalid value at 'generation_config.${name}': ${String(given)}`);
  if (value < 1 || value > max)
    throw badRequest(`* GenerateContentRequest.generation_config.${name}: must be within [1, ${max}]`);
  return value;
}
