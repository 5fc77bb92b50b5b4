import { messagesError, readMessagesError } from './anthropic/errors.ts';
import { foldMessages } from './anthropic/fold.ts';
import { readMessagesAnswer } from './anthropic/readAnswer.ts';
import { MESSAGES_SHAPE, readMessagesRequest } from './anthropic/readRequest.ts';
import { MessagesStreamReader } from './anthropic/readStream.ts';
import { writeMessagesRequest } from './anthropic/writeRequest.ts';
import { MessagesStreamWriter } from './anthropic/writeStream.ts';
import { foldChat } from './chat/fold.ts';
import { readChatAnswer } from './chat/readAnswer.ts';
import { CHAT_SHAPE, readChatRequest } from './chat/readRequest.ts';
import { ChatStreamReader } from './chat/readStream.ts';
import { writeChatRequest } from './chat/writeRequest.ts';
import { ChatStreamWriter } from './chat/writeStream.ts';
import type { CitationLimits } from './citations/answerCitations.ts';
import { readConverseError } from './converse/errors.ts';
import { readConverseAnswer } from './converse/readAnswer.ts';
import { ConverseStreamReader } from './converse/readStream.ts';
import { writeConverseRequest } from './converse/writeRequest.ts';
import type { Format, TargetFormat } from './format.ts';
import { geminiError, readGeminiError } from './gemini/errors.ts';
import { foldGemini } from './gemini/fold.ts';
import { GEMINI_SHAPE, readGeminiRequest } from './gemini/readRequest.ts';
import { GeminiStreamReader } from './gemini/readStream.ts';
import { writeGeminiRequest } from './gemini/writeRequest.ts';
import { GeminiStreamWriter } from './gemini/writeStream.ts';
import type { AnswerContext } from './ir/answer.ts';
import type { StreamEvent, StreamReader, StreamWriter, VendorError } from './ir/event.ts';
import type { FoldedAnswer } from './ir/fold.ts';
import type { ModelRequest } from './ir/request.ts';
import type { KeptShape, ParseLimits } from './json/parseBody.ts';
import type { ReadContext } from './loss/fields.ts';
import { openaiError, readOpenaiError } from './responses/errors.ts';
import { foldResponses } from './responses/fold.ts';
import { readResponsesAnswer } from './responses/readAnswer.ts';
import { RESPONSES_SHAPE, readResponsesRequest } from './responses/readRequest.ts';
import { ResponsesStreamReader } from './responses/readStream.ts';
import { repeatedOf } from './responses/repeated.ts';
import { writeResponsesRequest } from './responses/writeRequest.ts';
import { ResponsesStreamWriter } from './responses/writeStream.ts';
import type { RequestWriter } from './writeContext.ts';

/** What writes a request for a vendor, and reads its answer. */
export interface TargetTranslator {
  readonly writeRequest: RequestWriter;
  readonly streamReader: () => StreamReader;
  /** The events of an answer that is one JSON document. */
  readonly readAnswer: (body: string) => readonly StreamEvent[];
  readonly readError: (body: string, status: number) => VendorError;
}

/** What translates one format to and from a request and an answer in no vendor's dialect. */
export interface FormatTranslator extends TargetTranslator {
  /** What is kept of a request as it was written. */
  readonly shape: KeptShape;
  readonly readRequest: (value: unknown, context: ReadContext) => ModelRequest;
  readonly streamWriter: (context: AnswerContext) => StreamWriter;
  /** What an answer repeats of its request, if it does. */
  readonly repeatedOf?: (bytes: Uint8Array, limits: ParseLimits) => object;
  /** Which citations an answer in it takes. */
  readonly citations: CitationLimits;
  /** The answer as one JSON document, to be written by `writeJson`. */
  readonly fold: (answer: FoldedAnswer, context: AnswerContext) => object;
  readonly writeError: (error: VendorError) => object;
}

export const TRANSLATORS: Readonly<Record<Format, FormatTranslator>> = {
  messages: {
    shape: MESSAGES_SHAPE,
    readRequest: readMessagesRequest,
    writeRequest: writeMessagesRequest,
    streamReader: () => new MessagesStreamReader(),
    streamWriter: (context) => new MessagesStreamWriter(context),
    readAnswer: readMessagesAnswer,
    citations: { needsUrl: true, needsOpenText: true },
    fold: foldMessages,
    readError: readMessagesError,
    writeError: messagesError,
  },
  responses: {
    shape: RESPONSES_SHAPE,
    readRequest: readResponsesRequest,
    writeRequest: writeResponsesRequest,
    streamReader: () => new ResponsesStreamReader(),
    streamWriter: (context) => new ResponsesStreamWriter(context),
    repeatedOf,
    readAnswer: readResponsesAnswer,
    citations: { needsUrl: false, needsOpenText: false },
    fold: foldResponses,
    readError: readOpenaiError,
    writeError: openaiError,
  },
  chat: {
    shape: CHAT_SHAPE,
    readRequest: readChatRequest,
    writeRequest: writeChatRequest,
    streamReader: () => new ChatStreamReader(),
    streamWriter: (context) => new ChatStreamWriter(context),
    readAnswer: readChatAnswer,
    citations: { needsUrl: true, needsOpenText: false },
    fold: foldChat,
    readError: readOpenaiError,
    writeError: openaiError,
  },
  gemini: {
    shape: GEMINI_SHAPE,
    readRequest: readGeminiRequest,
    writeRequest: writeGeminiRequest,
    streamReader: () => new GeminiStreamReader(),
    streamWriter: (context) => new GeminiStreamWriter(context),
    readAnswer: readGeminiAnswer,
    citations: { needsUrl: false, needsOpenText: false },
    fold: foldGemini,
    readError: readGeminiError,
    writeError: geminiError,
  },
};

/** By what a request is translated to. */
export const TARGETS: Readonly<Record<TargetFormat, TargetTranslator>> = {
  ...TRANSLATORS,
  converse: {
    writeRequest: writeConverseRequest,
    streamReader: () => new ConverseStreamReader(),
    readAnswer: readConverseAnswer,
    readError: readConverseError,
  },
};

/** A document is a stream's only event. */
function readGeminiAnswer(body: string): readonly StreamEvent[] {
  const reader = new GeminiStreamReader();
  return [...reader.push(body), ...reader.end()];
}
