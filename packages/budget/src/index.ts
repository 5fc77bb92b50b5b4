export {
  type BucketRef,
  bucketAt,
  bucketKey,
  bucketOfKey,
  countersOf,
  keySubject,
  POLICY_SUBJECT,
  principalBucket,
  principalSubject,
  windowStartOf,
} from './bucketRef.ts';
export { isExhausted } from './isExhausted.ts';
