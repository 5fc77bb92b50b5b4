import type { Behaviour, MediaTokens } from '../shared/behaviour.ts';
import {
  firstTokens,
  MAX_OUTPUT_TOKENS,
  textOfTokens,
  tokensOfPrompt,
  tokensOfText,
} from '../shared/tokens.ts';
import { LENIENT, type VendorTraits } from '../shared/traits.ts';
import { assertSold, badRequest } from '../shared/vendorError.ts';
import type { Conversation, Message, Tool } from './conversation.ts';
import { greedOf } from './greed.ts';
import { argumentsFor, instanceOf } from './schemaInstance.ts';
import { type Serving, serve } from './serving.ts';

/** A greedy vendor writes no more than this. */
const GREEDY_OUTPUT_TOKENS = 4_096;
const GREEDY_CHUNKS = 8;

/** The model's output, independent of a dialect. All choices have the same. */
export interface ModelOutput {
  /** The called tool; `text` then has its arguments in JSON. */
  readonly toolName: string | undefined;
  /** How often the tool is called at once, each time with these arguments; 1 without a tool. */
  readonly calls: number;
  readonly text: string;
  /** The text in chunks, for streaming; those of one call after those of another. */
  readonly pieces: readonly string[];
  /** The text was truncated by a limit. */
  readonly cut: boolean;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  /** Written to the cache for five minutes, and for an hour. */
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  /** Per choice; not part of `textTokens`. */
  readonly reasoningTokens: number;
  /** Per choice. */
  readonly textTokens: number;
  /** Once, not per choice. Those of the output are neither text nor reasoning. */
  readonly media: MediaTokens;
  readonly serving: Serving;
}

/** Throws a 400 if the requested behaviour is impossible. */
export function composeOutput(
  conversation: Conversation,
  behaviour: Behaviour,
  traits: VendorTraits = LENIENT,
): ModelOutput {
  const greed = greedOf(conversation, traits);
  const inputTokens =
    greed.inputTokens +
    (behaviour.inputTokens ?? tokensOfPrompt(conversation.messages.map((message) => message.text)));
  const { cachedTokens, cacheWriteTokens, cacheWrite1hTokens, media } = behaviour;
  const inputParts =
    cachedTokens + cacheWriteTokens + cacheWrite1hTokens + media.inputAudio + media.inputImage;
  if (inputParts > inputTokens || media.cachedAudio > cachedTokens) {
    throw badRequest(
      `x-mock-cached-tokens, the cache writes, audio and images together must be at most the input's ${inputTokens} tokens, and the cached audio at most x-mock-cached-tokens.`,
    );
  }

  const serving = serve(conversation, behaviour, traits);
  assertSold(serving.model, traits.prices);
  const limit = serving.maxOutputTokens ?? Number.POSITIVE_INFINITY;
  const {
    toolName,
    text: wanted,
    split,
  } = traits.greedy ? speakGreedily(conversation, behaviour, limit) : speak(conversation, behaviour);
  const wantedReasoning = greed.reasons ? Math.floor(Math.min(limit, GREEDY_OUTPUT_TOKENS) / 2) : 0;
  const reasoningTokens = Math.min(behaviour.reasoningTokens || wantedReasoning, limit);
  const text = firstTokens(wanted, Math.min(limit - reasoningTokens, MAX_OUTPUT_TOKENS));
  const calls = toolName === undefined ? 1 : behaviour.parallelCalls;
  return {
    toolName,
    calls,
    text,
    pieces: Array.from({ length: calls }, () => split(text)).flat(),
    cut: text !== wanted || reasoningTokens < behaviour.reasoningTokens,
    inputTokens,
    cachedTokens,
    cacheWriteTokens,
    cacheWrite1hTokens,
    reasoningTokens,
    textTokens: tokensOfText(text.repeat(calls)),
    media,
    serving,
  };
}

/** To which of its calls a piece of a stream belongs. */
export function callOf({ calls, pieces }: ModelOutput, at: number): number {
  return Math.floor((at * calls) / pieces.length);
}

/** A greedy vendor repeats all that was said, the stored conversation too, and then writes as much as it may. */
function speakGreedily(conversation: Conversation, behaviour: Behaviour, limit: number): Speech {
  if (behaviour.outputTokens !== undefined || behaviour.chunks !== undefined)
    return speak(conversation, behaviour);
  const said = conversation.messages.map((message) => message.text).join('\n');
  const wanted = Math.min(limit, GREEDY_OUTPUT_TOKENS);
  const rest = Math.max(0, wanted - tokensOfText(said));
  const text = firstTokens(`${said} ${textOfTokens(rest)}`, wanted);
  return { text, split: (cut) => evenly(words(cut), GREEDY_CHUNKS) };
}

interface Speech {
  readonly toolName?: string;
  readonly text: string;
  readonly split: (text: string) => string[];
}

function speak(conversation: Conversation, behaviour: Behaviour): Speech {
  const { chunks, outputTokens } = behaviour;
  if (chunks !== undefined || outputTokens !== undefined) {
    const text = textOfTokens(outputTokens ?? chunks ?? 0);
    return { text, split: chunks === undefined ? words : (cut) => evenly(words(cut), chunks) };
  }

  const { toolCalls, toolRounds } = behaviour;
  const toolNamed = (wanted: string) => conversation.tools.find(({ name }) => name === wanted);
  const toolCall = toolCalls.find(({ name }) => toolNamed(name));
  const tool = toolCall && toolNamed(toolCall.name);
  const called: Speech | undefined = tool && {
    toolName: tool.name,
    text: tool.custom ? inputOf(toolCall.arguments) : toolCall.arguments,
    split: smallPieces,
  };
  const last = conversation.messages.findLast(({ role }) => role !== 'system' && role !== 'developer');
  if (last && isToolResult(last)) {
    if (called && toolResults(conversation) < toolRounds) return called;
    return answer(conversation, `The tool answered: "${last.text}"`);
  }
  if (called) return called;
  const question = conversation.messages.findLast((message) => message.role === 'user')?.text ?? '';
  const chosen = toolFor(conversation, question);
  if (chosen) {
    const text = chosen.custom ? question : argumentsFor(chosen.parameters, question);
    return { toolName: chosen.name, text, split: smallPieces };
  }
  return answer(conversation, question);
}

/** In the form that the request asks for. */
function answer({ answerFormat }: Conversation, text: string): Speech {
  if (answerFormat === undefined) return { text, split: words };
  const value = instanceOf(answerFormat.schema, text);
  return { text: answerFormat.isBare ? String(value) : JSON.stringify(value), split: smallPieces };
}

/** Of a custom tool: the argument `input`, or all of them. */
function inputOf(text: string): string {
  const { input } = JSON.parse(text) as { input?: unknown };
  return typeof input === 'string' ? input : text;
}

function isToolResult({ role }: Message): boolean {
  return role === 'tool' || role === 'function';
}

/** Since the user last spoke. */
function toolResults({ messages }: Conversation): number {
  const asked = messages.findLastIndex(({ role }) => role === 'user');
  return messages.slice(asked + 1).filter(isToolResult).length;
}

function toolFor({ tools, toolChoice }: Conversation, question: string): Tool | undefined {
  if (toolChoice === 'none') return undefined;
  if (toolChoice === 'required') return tools[0];
  if (toolChoice === 'auto') return tools.find((tool) => question.includes(tool.name));
  return tools.find((tool) => tool.name === toolChoice.name);
}

/** Splits into words, each with the white space after it. */
function words(text: string): string[] {
  return text.match(/\S+\s*|\s+/g) ?? [];
}

/** Joins neighbours until at most `count` pieces are left. */
function evenly(pieces: readonly string[], count: number): string[] {
  const size = Math.min(count, pieces.length);
  return Array.from({ length: size }, (_, at) =>
    pieces
      .slice(Math.floor((at * pieces.length) / size), Math.floor(((at + 1) * pieces.length) / size))
      .join(''),
  );
}

/** Splits into pieces of a few characters, like streamed arguments. */
function smallPieces(text: string): string[] {
  return text.match(/.{1,8}/gsu) ?? [];
}
