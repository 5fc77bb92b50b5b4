import type { Behaviour } from './behaviour.ts';
import type { Conversation, Tool } from './conversation.ts';
import { firstTokens, MAX_OUTPUT_TOKENS, textOfTokens, tokensOfPrompt, tokensOfText } from './tokens.ts';
import { argumentsFor } from './toolArguments.ts';
import { badRequest } from './vendorError.ts';

/** What the model says, before a dialect puts it on the wire. All choices say the same. */
export interface Answer {
  /** The tool that is called; `text` then holds its arguments in JSON. */
  readonly toolName: string | undefined;
  readonly text: string;
  /** The text, as it is streamed. */
  readonly pieces: readonly string[];
  /** A limit cut the text. */
  readonly cut: boolean;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  /** Written to the cache for five minutes, and for an hour. */
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  /** Of one choice; not in `textTokens`. */
  readonly reasoningTokens: number;
  /** Of one choice. */
  readonly textTokens: number;
}

/** Decides on the answer. Throws a 400 when the behaviour asked for cannot be. */
export function composeAnswer(conversation: Conversation, behaviour: Behaviour): Answer {
  const inputTokens =
    behaviour.inputTokens ?? tokensOfPrompt(conversation.messages.map((message) => message.text));
  const { cachedTokens, cacheWriteTokens, cacheWrite1hTokens } = behaviour;
  if (cachedTokens + cacheWriteTokens + cacheWrite1hTokens > inputTokens) {
    throw badRequest(
      `x-mock-cached-tokens and what is written to the cache must be at most the input's tokens, ${inputTokens} here.`,
    );
  }

  const { toolName, text: wanted, split } = speak(conversation, behaviour);
  const limit = conversation.maxOutputTokens ?? Number.POSITIVE_INFINITY;
  const reasoningTokens = Math.min(behaviour.reasoningTokens, limit);
  const text = firstTokens(wanted, Math.min(limit - reasoningTokens, MAX_OUTPUT_TOKENS));
  return {
    toolName,
    text,
    pieces: split(text),
    cut: text !== wanted || reasoningTokens < behaviour.reasoningTokens,
    inputTokens,
    cachedTokens,
    cacheWriteTokens,
    cacheWrite1hTokens,
    reasoningTokens,
    textTokens: tokensOfText(text),
  };
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

  const last = conversation.messages.at(-1);
  if (last?.role === 'tool' || last?.role === 'function') {
    return { text: `The tool answered: "${last.text}"`, split: words };
  }

  const question = conversation.messages.findLast((message) => message.role === 'user')?.text ?? '';
  const tool = toolFor(conversation, question);
  if (tool) {
    return { toolName: tool.name, text: argumentsFor(tool.parameters, question), split: smallPieces };
  }
  return { text: question, split: words };
}

function toolFor({ tools, toolChoice }: Conversation, question: string): Tool | undefined {
  if (toolChoice === 'none') return undefined;
  if (toolChoice === 'required') return tools[0];
  if (toolChoice === 'auto') return tools.find((tool) => question.includes(tool.name));
  return tools.find((tool) => tool.name === toolChoice.name);
}

/** Each word with the white space after it. */
function words(text: string): string[] {
  return text.match(/\S+\s*|\s+/g) ?? [];
}

/** Joins neighbours until there are so many pieces, or as many as there are. */
function evenly(pieces: readonly string[], count: number): string[] {
  const size = Math.min(count, pieces.length);
  return Array.from({ length: size }, (_, at) =>
    pieces
      .slice(Math.floor((at * pieces.length) / size), Math.floor(((at + 1) * pieces.length) / size))
      .join(''),
  );
}

/** As arguments stream: a few characters at a time, whole ones. */
function smallPieces(text: string): string[] {
  return text.match(/.{1,8}/gsu) ?? [];
}
