const INFERENCE_PATH = /^\/(?:v1|(?:upload\/)?v1beta|openai)(?=[/?]|$)/;
/** What clients ask for if their base URL lacks `/v1`. */
const UNVERSIONED_PATH =
  /^\/(?:chat\/completions|completions|responses|messages|embeddings|models|feedback)(?=[/?]|$)/;

/** Whether a path belongs to the inference API, also one that it does not serve. */
export function isInferencePath(url: string): boolean {
  return INFERENCE_PATH.test(url) || UNVERSIONED_PATH.test(url);
}
