export {
  type BucketRef,
  bucketKey,
  bucketOfKey,
  countersOf,
  keySubject,
  POLICY_SUBJECT,
  principalBucket,
  principalSubject,
} from './bucketRef.ts';
