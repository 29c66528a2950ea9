// Loads of uploads with an S3 bucket as the file store.
import { suitesOnS3 } from '../../file_stores.ts';

suitesOnS3([new URL('./load.test.ts', import.meta.url)]);
