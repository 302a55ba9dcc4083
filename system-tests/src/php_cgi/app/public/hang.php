<?php
// Answers once the client has made a file.
require __DIR__ . '/../lib/app.php';

echo told('release') ? "released\n" : "too late\n";
