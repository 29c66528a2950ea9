// Results with an S3 bucket as the file store.
import { suitesOnS3 } from '../../file_stores.ts';

const suites = ['./query_files', './streamed_results', './result_access'] as const;
suitesOnS3(suites.map((suite) => new URL(`${suite}.test.ts`, import.meta.url)));
