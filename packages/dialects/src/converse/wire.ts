/** Bedrock's Converse (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html), as far as it is written here. */
export interface ConverseBody {
  /** These three go elsewhere when the request is sent: to the path, and into `inferenceConfig`. */
  readonly model: string;
  readonly stream?: boolean;
  readonly maxTokens?: number;
  readonly messages: readonly ConverseMessage[];
  readonly system?: readonly SystemBlock[];
  readonly inferenceConfig?: InferenceConfig;
  readonly toolConfig?: ToolConfig;
  readonly outputConfig?: OutputConfig;
}

export interface InferenceConfig {
  readonly temperature?: number;
  readonly topP?: number;
  readonly stopSequences?: readonly string[];
}

export interface ConverseMessage {
  readonly role: 'user' | 'assistant';
  readonly content: readonly ConverseBlock[];
}

/** Asks the vendor to cache the prompt up to here. */
interface CachePoint {
  readonly cachePoint: { readonly type: 'default' };
}

export type SystemBlock = { readonly text: string } | CachePoint;

interface Bytes {
  /** In JSON, as base64. */
  readonly bytes: string;
}

export type ConverseBlock =
  | SystemBlock
  | { readonly image: { readonly format: string; readonly source: Bytes } }
  | { readonly document: { readonly format: string; readonly name: string; readonly source: Bytes } }
  | { readonly toolUse: { readonly toolUseId: string; readonly name: string; readonly input: unknown } }
  | { readonly toolResult: ConverseResult }
  | {
      readonly reasoningContent:
        | { readonly reasoningText: { readonly text: string; readonly signature: string } }
        | { readonly redactedContent: string };
    };

export interface ConverseResult {
  readonly toolUseId: string;
  readonly content: readonly ConverseBlock[];
  readonly status?: 'error';
}

export interface ToolConfig {
  readonly tools: readonly { readonly toolSpec: ToolSpec }[];
  readonly toolChoice?:
    | { readonly auto: object }
    | { readonly any: object }
    | { readonly tool: { readonly name: string } };
}

export interface ToolSpec {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: { readonly json: unknown };
}

export interface OutputConfig {
  readonly effort?: string;
  readonly textFormat?: {
    readonly type: 'json_schema';
    /** The schema is a text. */
    readonly structure: { readonly jsonSchema: { readonly schema: string; readonly name?: string } };
  };
}
