/** More than any vendor accepts. */
export const MAX_CHOICES = 128;

export const OUTPUT_TOKENS = 'reserved in full; what is not a whole number is refused';
export const SERVICE_TIER = 'the tier in the answer; the dearest tier that the request allows is reserved';
export const MEDIA = 'its tokens depend on its content, not on its bytes';
export const SECOND_PASS = 'the model runs again to write a summary, beside the output limit';
