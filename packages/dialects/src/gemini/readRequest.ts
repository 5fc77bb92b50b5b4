import type {
  Effort,
  ModelRequest,
  Reasoning,
  StructuredOutput,
  TextPart,
  ToolChoice,
} from '../ir/request.ts';
import type { KeptShape } from '../json/parseBody.ts';
import { Fields, type ReadContext } from '../loss/fields.ts';
import { raiseSchema } from '../schema/raiseSchema.ts';
import { readContents, readParts } from './readContents.ts';
import { readTools } from './readTools.ts';
import { UnansweredCalls } from './unansweredCalls.ts';
import { type ConfigWire, type Content, type GeminiBody, geminiFields, inBothSpellings } from './wire.ts';

/** What is kept as it was written: arguments, results and schemas. */
export const GEMINI_SHAPE: KeptShape = inBothSpellings({
  members: {
    // Where nothing is kept, the items are counted.
    systemInstruction: { members: { parts: { items: {} } } },
    contents: {
      items: {
        members: {
          parts: {
            items: {
              members: {
                functionCall: { members: { args: 'kept' } },
                functionResponse: { members: { response: 'kept' } },
              },
            },
          },
        },
      },
    },
    tools: {
      items: {
        members: {
          functionDeclarations: { items: { members: { parameters: 'kept', parametersJsonSchema: 'kept' } } },
        },
      },
    },
    generationConfig: { members: { responseSchema: 'kept', responseJsonSchema: 'kept' } },
  },
});

const VENDOR_ONLY = ['safetySettings', 'labels', 'serviceTier', 'store'] as const;
const CONFIG_ONLY = ['mediaResolution', 'enableEnhancedCivicAnswers', 'audioTimestamp'] as const;
const CONFIG_REFUSED = ['speechConfig', 'imageConfig', 'responseFormat'] as const;

/** Reads a body of Gemini's `generateContent`, which `GEMINI_SHAPE` parsed. Whether it streams is in its path. */
export function readGeminiRequest(value: unknown, context: ReadContext): ModelRequest {
  const body = geminiFields<GeminiBody>(value, '', context) ?? new Fields<GeminiBody>({}, '', context);
  body.take('model');
  const config =
    child<ConfigWire>(body, 'generationConfig') ?? new Fields<ConfigWire>({}, 'generationConfig', context);
  const request: ModelRequest = {
    stream: false,
    wantsUsage: true,
    system: readSystem(body),
    messages: readContents(body),
    tools: readTools(body),
    toolChoice: readChoice(body),
    maxTokens: config.numberSetting('maxOutputTokens'),
    limitPath: config.at('maxOutputTokens'),
    sampling: {
      temperature: config.numberSetting('temperature'),
      topP: config.numberSetting('topP'),
      topK: config.numberSetting('topK'),
      seed: config.numberSetting('seed'),
      presencePenalty: config.numberSetting('presencePenalty'),
      frequencyPenalty: config.numberSetting('frequencyPenalty'),
      stop: config.textsSetting('stopSequences'),
    },
    reasoning: readThinking(config),
    output: readOutput(config),
  };
  readOtherConfig(config);
  for (const name of VENDOR_ONLY) body.drop(name, 'only its vendor has it');
  body.refuse('cachedContent', 'the content is at its vendor');
  body.end();
  return request;
}

/** A member that is an object, in either spelling. */
function child<Member extends object>(
  fields: Fields<GeminiBody> | Fields<ConfigWire>,
  name: string,
): Fields<Member> | undefined {
  const value = fields.take(name as never);
  return value === undefined ? undefined : geminiFields<Member>(value, fields.at(name), fields.context);
}

function readSystem(body: Fields<GeminiBody>): TextPart[] {
  const value = body.take('systemInstruction');
  if (value === undefined) return [];
  const content = geminiFields<Content>(value, 'systemInstruction', body.context);
  content?.take('role');
  const parts = content ? readParts(content, new UnansweredCalls()) : [];
  content?.end();
  return parts.flatMap((part) => {
    if (part.kind === 'text') return [part];
    body.context.losses.add(part.path, 'refused', 'expected a text');
    return [];
  });
}

function readChoice(body: Fields<GeminiBody>): ToolChoice | undefined {
  const config = child<{ functionCallingConfig?: unknown; retrievalConfig?: unknown }>(body, 'toolConfig');
  config?.drop('retrievalConfig', 'only its vendor has it');
  const value = config?.take('functionCallingConfig');
  config?.end();
  if (value === undefined) return undefined;
  const path = 'toolConfig.functionCallingConfig';
  const calling = geminiFields<{ mode?: string; allowedFunctionNames?: string[] }>(value, path, body.context);
  const mode = calling?.word('mode', ['AUTO', 'ANY', 'NONE', 'VALIDATED', 'MODE_UNSPECIFIED'] as const);
  const names = calling?.texts('allowedFunctionNames') ?? [];
  calling?.end();
  const [name = ''] = names;
  const allowed = names.length > 0 ? names : undefined;
  if (mode === 'ANY' && names.length === 1) return { path, mode: 'one', name };
  if (mode === 'ANY') return { path, mode: 'any', name: '', allowed };
  if (mode === 'NONE') return { path, mode: 'none', name: '' };
  if (mode === 'VALIDATED') body.context.losses.add(`${path}.mode`, 'changed', 'calls are not validated');
  return mode === undefined ? undefined : { path, mode: 'auto', name: '', allowed };
}

const LEVELS: Readonly<Record<string, Effort>> = {
  MINIMAL: 'minimal',
  LOW: 'low',
  MEDIUM: 'medium',
  HIGH: 'high',
};

function readThinking(config: Fields<ConfigWire>): Reasoning | undefined {
  const thinking = child<{ includeThoughts?: boolean; thinkingBudget?: number; thinkingLevel?: string }>(
    config,
    'thinkingConfig',
  );
  if (!thinking) return undefined;
  const budget = thinking.numberSetting('thinkingBudget');
  const level = thinking.text('thinkingLevel');
  const value = level === undefined ? undefined : LEVELS[level.toUpperCase()];
  const path = thinking.at('thinkingLevel');
  if (level !== undefined && !value) thinking.context.losses.add(path, 'refused', 'the level is not known');
  const isShown = thinking.flag('includeThoughts') ?? false;
  const shownPath = isShown ? thinking.at('includeThoughts') : undefined;
  thinking.end();
  const effort = value && { value, path };
  const isAdaptive = budget ? budget.value < 0 : !effort;
  return {
    path: thinking.path,
    effort,
    budget: isAdaptive ? undefined : budget,
    isAdaptive,
    isShown,
    shownPath,
  };
}

function readOutput(config: Fields<ConfigWire>): StructuredOutput | undefined {
  const type = config.text('responseMimeType');
  const path = config.at('responseMimeType');
  const json = config.json('responseJsonSchema');
  const own = config.json('responseSchema');
  const { losses } = config.context;
  const schema = json ?? (own && raiseSchema(own, config.at('responseSchema'), losses));
  if (type === undefined || type === 'text/plain') {
    if (schema) losses.add(path, 'refused', 'a schema needs application/json');
    return undefined;
  }
  if (type === 'application/json') return { path, schema };
  losses.add(path, 'refused', 'other dialects write text or JSON');
  return undefined;
}

function readOtherConfig(config: Fields<ConfigWire>): void {
  const { losses } = config.context;
  if ((config.number('candidateCount') ?? 1) !== 1) {
    losses.add(config.at('candidateCount'), 'refused', 'other dialects have one candidate');
  }
  if (config.flag('responseLogprobs'))
    losses.add(config.at('responseLogprobs'), 'refused', 'it has no counterpart');
  if (config.number('logprobs')) losses.add(config.at('logprobs'), 'refused', 'it has no counterpart');
  const modalities = config.texts('responseModalities') ?? [];
  if (modalities.some((modality) => modality.toUpperCase() !== 'TEXT')) {
    losses.add(config.at('responseModalities'), 'refused', 'the answer is text');
  }
  for (const name of CONFIG_ONLY) config.drop(name, 'only its vendor has it');
  for (const name of CONFIG_REFUSED) config.refuse(name, 'it has no counterpart');
  config.end();
}
